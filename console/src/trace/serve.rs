//! The console's recording: made on request, listed, explained and downloaded.
//!
//! There is one recording at a time; the next one replaces it. Indexing and writing the file take a long time, so they
//! run on separate threads, and the console's thread keeps answering.

use super::explain::{Analysis, Explanation, TypeTimes};
use super::file::{Trace, TraceError};
use super::part::{Cause, Part};
use super::text::{method, short};
use crate::answer::{Body, JSON, respond, text, wrong_method};
use bytes::Bytes;
use http_body_util::{BodyExt, channel::Channel};
use hyper::body::Frame;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use postroom::Host;
use postroom::record::Recording;
use serde::Serialize;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Default duration of a recording, in milliseconds.
const USUAL: u64 = 2_000;
/// Maximum duration of a recording, in milliseconds.
const LONGEST: u64 = 10_000;
/// Size of the recorder's buffers. With the index and the data of a download, a recording takes up to about 200 MiB.
const MEMORY: usize = 64 << 20;
/// Maximum number of message types listed.
const MAX_TYPES: usize = 100;
/// Maximum number of sub-parts listed for a part, and of steps listed for a path. The longest ones are listed.
const MAX_PARTS: usize = 20;
/// Maximum number of chunks of a download that wait for the client.
const PIECES: usize = 4;

/// The most recent recording of a console.
#[derive(Clone, Default)]
pub(crate) struct LastRecording {
    state: Arc<Mutex<RecordingState>>,
}

#[derive(Clone, Default)]
enum RecordingState {
    #[default]
    None,
    Recording,
    Failed(String),
    Made(Arc<Made>),
}

struct Made {
    recording: Recording,
    analysis: Analysis,
    /// The size of the file in bytes, or why there is no file.
    file: Result<u64, TraceError>,
    events: u64,
}

impl LastRecording {
    /// Answers requests about the recording. Returns `None` for other paths. `refused` returns the refusal, if the
    /// request is not allowed to perform actions.
    pub(crate) fn answer(
        &self,
        host: Host,
        (method, path): (&hyper::Method, &str),
        value: impl Fn(&str) -> Option<String>,
        peer: SocketAddr,
        refused: impl FnOnce() -> Option<Response<Body>>,
    ) -> Option<Response<Body>> {
        let allowed = if path == "/api/record" { hyper::Method::POST } else { hyper::Method::GET };
        Some(match path {
            "/api/record" | "/api/slow" | "/api/trace" if *method != allowed => {
                wrong_method(if path == "/api/record" { "POST" } else { "GET" })
            }
            "/api/record" => refused().unwrap_or_else(|| self.record(host, value("milliseconds"), peer)),
            "/api/slow" => self.slow(value("flow"), value("as")),
            "/api/trace" => self.download(),
            _ => return None,
        })
    }

    fn state(&self) -> RecordingState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: RecordingState) {
        // The old state may be large, so it is dropped only after the lock has been released.
        let _old = std::mem::replace(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner), state);
    }

    /// Starts a recording. It ends by itself, or with the console.
    fn record(&self, host: Host, milliseconds: Option<String>, peer: SocketAddr) -> Response<Body> {
        let asked = milliseconds.map_or(Ok(USUAL), |text| text.parse::<u64>().map_err(|_| text));
        let milliseconds = match asked {
            Ok(milliseconds) if (1..=LONGEST).contains(&milliseconds) => milliseconds,
            Ok(milliseconds) => return out_of_range(&milliseconds.to_string()),
            Err(other) => return out_of_range(&other),
        };
        if matches!(self.state(), RecordingState::Recording) {
            return text(StatusCode::CONFLICT, "a recording is being made; wait until it has ended");
        }
        let lasts = Duration::from_millis(milliseconds);
        // The limit is longer than the recording, which is stopped by the task below.
        let active = match host.record(2 * lasts).memory(MEMORY).start() {
            Ok(active) => active,
            Err(error) => return text(StatusCode::CONFLICT, &error.to_string()),
        };
        let act = "record";
        tracing::warn!(
            target: "postroom",
            act, milliseconds, %peer,
            "a recording was begun from the console"
        );
        self.set(RecordingState::Recording);
        let own = self.clone();
        tokio::spawn(async move {
            sleep(lasts).await;
            let making = own.clone();
            let thread = thread::Builder::new().name("postroom-console-trace".into());
            let made = thread.spawn(move || {
                let failed = Unmade(&making);
                let made = Arc::new(Made::of(active.stop()));
                std::mem::forget(failed);
                making.set(RecordingState::Made(made));
            });
            if let Err(error) = made {
                own.set(RecordingState::Failed(format!("the system has no thread to make the recording: {error}")));
            }
        });
        text(StatusCode::ACCEPTED, &format!("it records for {milliseconds} ms"))
    }

    fn slow(&self, flow: Option<String>, form: Option<String>) -> Response<Body> {
        let state = self.state();
        let Some(flow) = flow else { return json(&Slow::of(&state)) };
        let RecordingState::Made(made) = state else { return text(StatusCode::NOT_FOUND, NO_RECORDING) };
        let Ok(number) = flow.parse::<u32>() else {
            return text(StatusCode::BAD_REQUEST, "`flow` is the number of a message, as `/api/slow` lists them");
        };
        match made.analysis.explain(number) {
            Err(error) => text(StatusCode::NOT_FOUND, &error.to_string()),
            Ok(explanation) if form.as_deref() == Some("text") => {
                text(StatusCode::OK, explanation.to_string().trim_end())
            }
            Ok(explanation) => json(&One::of(&explanation)),
        }
    }

    fn download(&self) -> Response<Body> {
        let RecordingState::Made(made) = self.state() else { return text(StatusCode::NOT_FOUND, NO_RECORDING) };
        let bytes = match &made.file {
            Ok(bytes) => *bytes,
            Err(error) => return text(StatusCode::INSUFFICIENT_STORAGE, &error.to_string()),
        };
        let (pieces, mut written) = mpsc::channel(PIECES);
        let write = move || {
            // If the client disconnects, the write fails and the thread ends.
            let _ = Trace::of(&made.recording).write(Pieces(pieces));
        };
        if let Err(error) = thread::Builder::new().name("postroom-console-trace".into()).spawn(write) {
            return text(StatusCode::SERVICE_UNAVAILABLE, &format!("the system has no thread to write it: {error}"));
        }
        let (mut sender, body) = Channel::<Bytes>::new(1);
        tokio::spawn(async move {
            while let Some(piece) = written.recv().await {
                if sender.send(Frame::data(piece)).await.is_err() {
                    return;
                }
            }
        });
        let mut response = Response::new(body.boxed());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes));
        headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"postroom.pftrace\""));
        response
    }
}

const NO_RECORDING: &str = "there is no recording; make one by a POST to `/api/record`";

fn out_of_range(came: &str) -> Response<Body> {
    let came: String = came.chars().take(80).collect();
    let why = format!("`milliseconds={came}` is not understood; write a number from 1 to {LONGEST}");
    text(StatusCode::BAD_REQUEST, &why)
}

fn json(value: &impl Serialize) -> Response<Body> {
    match serde_json::to_string(value) {
        Ok(json) => respond(StatusCode::OK, JSON, json.into()),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A guard that sets the state to failed if processing the recording panics.
struct Unmade<'a>(&'a LastRecording);

impl Drop for Unmade<'_> {
    fn drop(&mut self) {
        self.0.set(RecordingState::Failed("the recording could not be read; the program's log says why".to_owned()));
    }
}

impl Made {
    fn of(recording: Recording) -> Self {
        let analysis = Analysis::of(&recording);
        // The size is sent before the content, so that a client can detect a truncated download.
        let file = Trace::of(&recording).write(io::sink());
        let events = recording.events().count() as u64;
        Self { recording, analysis, file, events }
    }
}

/// A writer that sends its chunks to a channel.
struct Pieces(mpsc::Sender<Bytes>);

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Bytes::copy_from_slice(bytes));
        sent.map(|()| bytes.len()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The list of slow messages. Times are in nanoseconds.
#[derive(Serialize)]
struct Slow {
    state: &'static str,
    error: Option<String>,
    duration: u64,
    events: u64,
    lost: u64,
    file: Option<u64>,
    rows: Vec<SlowRow>,
}

#[derive(Serialize)]
struct SlowRow {
    name: String,
    to: String,
    message: String,
    count: u64,
    p50: u64,
    p99: u64,
    slowest: Vec<Slowest>,
}

#[derive(Serialize)]
struct Slowest {
    flow: u32,
    pid: postroom::Pid,
    sent: u64,
    took: u64,
}

impl Slow {
    fn of(state: &RecordingState) -> Self {
        let (name, error) = match state {
            RecordingState::None => ("none", None),
            RecordingState::Recording => ("recording", None),
            RecordingState::Failed(error) => ("failed", Some(error.clone())),
            RecordingState::Made(_) => ("made", None),
        };
        let mut slow = Self { state: name, error, duration: 0, events: 0, lost: 0, file: None, rows: Vec::new() };
        if let RecordingState::Made(made) = state {
            slow.duration = nanoseconds(made.recording.duration());
            slow.events = made.events;
            slow.lost = made.recording.lost();
            slow.error = made.file.as_ref().err().map(TraceError::to_string);
            slow.file = made.file.as_ref().ok().copied();
            slow.rows = made.analysis.slowest().iter().take(MAX_TYPES).map(SlowRow::of).collect();
        }
        slow
    }
}

impl SlowRow {
    fn of(times: &TypeTimes) -> Self {
        let slowest = times.slowest.iter().map(|timed| Slowest {
            flow: timed.flow,
            pid: timed.to.pid,
            sent: nanoseconds(timed.sent),
            took: nanoseconds(timed.took),
        });
        Self {
            name: method(times.to, times.message),
            to: short(times.to),
            message: short(times.message),
            count: times.count,
            p50: nanoseconds(times.p50),
            p99: nanoseconds(times.p99),
            slowest: slowest.collect(),
        }
    }
}

/// The breakdown of one message.
#[derive(Serialize)]
struct One {
    flow: u32,
    sent: u64,
    is_call: bool,
    is_finished: bool,
    lost: u64,
    whole: OnePart,
    path: Vec<Step>,
    remedy: Option<OneRemedy>,
    text: String,
}

#[derive(Serialize)]
struct OnePart {
    says: String,
    kind: &'static str,
    took: u64,
    count: u64,
    parts: Vec<OnePart>,
    /// Number of the parts that are not listed.
    others: usize,
    /// Total time of the parts that are not listed.
    others_took: u64,
}

#[derive(Serialize)]
struct Step {
    says: String,
    kind: &'static str,
    from: u64,
    took: u64,
}

#[derive(Serialize)]
struct OneRemedy {
    says: String,
    then: u64,
}

impl One {
    fn of(explanation: &Explanation) -> Self {
        let mut steps: Vec<_> = explanation.path.iter().collect();
        steps.sort_by_key(|step| std::cmp::Reverse(step.took));
        steps.truncate(MAX_PARTS);
        steps.sort_by_key(|step| step.from);
        let step = |step: &super::part::PathStep| Step {
            says: step.cause.to_string(),
            kind: kind(&step.cause),
            from: nanoseconds(step.from),
            took: nanoseconds(step.took),
        };
        Self {
            flow: explanation.flow,
            sent: nanoseconds(explanation.sent),
            is_call: explanation.is_call,
            is_finished: explanation.is_finished,
            lost: explanation.lost,
            whole: OnePart::of(&explanation.whole, explanation.whole.took),
            path: steps.into_iter().map(step).collect(),
            remedy: explanation
                .remedy
                .map(|remedy| OneRemedy { says: remedy.without.remedy(), then: nanoseconds(remedy.then) }),
            text: explanation.to_string(),
        }
    }
}

impl OnePart {
    fn of(part: &Part, whole: Duration) -> Self {
        let (shown, others) = part.main_parts(whole, MAX_PARTS);
        Self {
            says: part.cause.to_string(),
            kind: kind(&part.cause),
            took: nanoseconds(part.took),
            count: part.count,
            parts: shown.into_iter().map(|part| Self::of(part, whole)).collect(),
            others: others.len(),
            others_took: others.iter().map(|part| nanoseconds(part.took)).sum(),
        }
    }
}

/// Returns the class of a cause: the page displays causes of one class alike.
fn kind(cause: &Cause) -> &'static str {
    match cause {
        Cause::Message { .. } | Cause::Handling { .. } => "call",
        Cause::Mailbox { .. } | Cause::Behind { .. } => "mailbox",
        Cause::Running { .. } => "running",
        Cause::Worker { .. } | Cause::Busy { .. } | Cause::Waking { .. } | Cause::Blocked { .. } => "worker",
        Cause::Suspended { .. } => "suspended",
        Cause::Timer { .. } | Cause::LateTimer { .. } => "timer",
        Cause::Deferred { .. } | Cause::Outside { .. } | Cause::Cycle => "outside",
        Cause::Unknown | Cause::Remainder => "unknown",
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
