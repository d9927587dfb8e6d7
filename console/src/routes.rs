//! Routes requests to the code that answers them.

use crate::acts::Act;
use crate::answer::{Body, JSON, respond, text, wrong_method};
use crate::api::{self, Sight, View};
use crate::metrics;
use crate::token::Guard;
use crate::trace::LastRecording;
use crate::watch::{self, MAX_WATCHES};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, REFERRER_POLICY,
    SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use postroom::Pid;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Content security policy: allows only files of this server, and no inline scripts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const HTML: &str = "text/html; charset=utf-8";
/// Maximum length of a URL in bytes.
const MAX_URL: usize = 4 << 10;

/// The files of the page: path, content type and content.
const FILES: [(&str, &str, &str); 5] = [
    ("/", HTML, include_str!("../page/index.html")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("../page/page.js")),
    ("/trace.js", "text/javascript; charset=utf-8", include_str!("../page/trace.js")),
    ("/page.css", "text/css; charset=utf-8", include_str!("../page/page.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../page/icon.svg")),
];

/// Everything that a console serves.
pub(crate) struct Site {
    sight: Arc<Sight>,
    guard: Guard,
    watches: Arc<Semaphore>,
    recording: LastRecording,
}

impl Site {
    pub(crate) fn new(sight: Sight, guard: Guard) -> Self {
        Self {
            sight: Arc::new(sight),
            guard,
            watches: Arc::new(Semaphore::new(MAX_WATCHES)),
            recording: LastRecording::default(),
        }
    }

    /// Answers a request. Calls `is_watch` if the response is a watch, which may take longer than other responses.
    pub(crate) async fn answer(
        &self,
        request: &Request<Incoming>,
        peer: SocketAddr,
        is_watch: impl FnOnce(),
    ) -> Result<Response<Body>, Infallible> {
        let mut response = self.route(request, peer, is_watch).await;
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_SECURITY_POLICY, POLICY),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Ok(response)
    }

    async fn route(&self, request: &Request<Incoming>, peer: SocketAddr, is_watch: impl FnOnce()) -> Response<Body> {
        let (uri, headers) = (request.uri(), request.headers());
        if uri.path().len() + uri.query().map_or(0, str::len) > MAX_URL {
            return text(StatusCode::URI_TOO_LONG, "the URL is too long");
        }
        if !self.guard.is_addressed(headers) {
            let why = "this server does not have the name in `Host`; allow it with `.allow_host(…)` if it is a proxy's";
            return text(StatusCode::MISDIRECTED_REQUEST, why);
        }
        let query: Vec<(String, String)> =
            form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        if let Some(token) = value("token").filter(|_| uri.path() == "/") {
            return if self.guard.is_token(token) { self.admit() } else { unauthorized() };
        }
        if !self.guard.admits(headers) {
            return unauthorized();
        }
        let asked = (request.method(), uri.path());
        let refused = || self.refuses_act(headers);
        let owned = |name: &str| value(name).map(str::to_owned);
        if let Some(response) = self.recording.answer(self.sight.host, asked, owned, peer, refused) {
            return response;
        }
        let act = uri.path().strip_prefix("/api/").and_then(Act::parse);
        match (act, request.method()) {
            (None, &Method::GET) => {}
            (Some(act), &Method::POST) => return self.act(act, value("pid").unwrap_or_default(), headers, peer),
            (Some(_), _) => return wrong_method("POST"),
            (None, _) => return wrong_method("GET"),
        }
        if let Some((_, kind, content)) = FILES.iter().find(|(path, ..)| *path == uri.path()) {
            return respond(StatusCode::OK, kind, Bytes::from_static(content.as_bytes()));
        }
        match uri.path() {
            "/metrics" => respond(StatusCode::OK, metrics::FORMAT, metrics::text(&self.sight).into()),
            "/api/watch" => self.watch(value("view").unwrap_or_default(), &query, is_watch),
            path => match path.strip_prefix("/api/").map(|view| View::parse(view, &query)) {
                Some(Ok(view)) => match view.json(&self.sight).await {
                    Ok(json) => respond(StatusCode::OK, JSON, json.into()),
                    Err(missing) => text(StatusCode::NOT_FOUND, &missing.to_string()),
                },
                Some(Err(error)) => text(error_status(&error), &error.to_string()),
                None => text(StatusCode::NOT_FOUND, "there is no such page"),
            },
        }
    }

    fn watch(&self, view: &str, query: &[(String, String)], is_watch: impl FnOnce()) -> Response<Body> {
        let view = match View::parse(view, query) {
            Ok(view) => view,
            Err(error) => return text(error_status(&error), &error.to_string()),
        };
        let Ok(permit) = Arc::clone(&self.watches).try_acquire_owned() else {
            let why = format!("{MAX_WATCHES} views are watched already; close one");
            return text(StatusCode::SERVICE_UNAVAILABLE, &why);
        };
        is_watch();
        let mut response = Response::new(watch::events(Arc::clone(&self.sight), view, permit));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response
    }

    /// Returns the refusal if a request is not allowed to perform actions, or `None` if it is.
    fn refuses_act(&self, headers: &HeaderMap) -> Option<Response<Body>> {
        if !self.sight.may_act {
            let why = "this console only reads; start it with `.controls(true)` to act";
            return Some(text(StatusCode::FORBIDDEN, why));
        }
        (!self.guard.is_own(headers))
            .then(|| text(StatusCode::FORBIDDEN, "only this console's own page and scripts may act"))
    }

    fn act(&self, act: Act, pid: &str, headers: &HeaderMap, peer: SocketAddr) -> Response<Body> {
        if let Some(refused) = self.refuses_act(headers) {
            return refused;
        }
        match pid.parse::<Pid>() {
            Err(error) => text(StatusCode::BAD_REQUEST, &error.to_string()),
            Ok(pid) if act.perform(pid, &self.sight.taps, peer) => text(StatusCode::ACCEPTED, "it has been told"),
            Ok(pid) => text(StatusCode::NOT_FOUND, &format!("{pid} is not alive in this program")),
        }
    }

    /// Sets the cookie in the browser and redirects it to a URL without the token.
    fn admit(&self) -> Response<Body> {
        let mut response = text(StatusCode::SEE_OTHER, "go on to the page");
        response.headers_mut().insert(LOCATION, HeaderValue::from_static("/"));
        if let Ok(cookie) = HeaderValue::from_str(&self.guard.set_cookie()) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        response
    }
}

fn error_status(error: &api::QueryError) -> StatusCode {
    match error {
        api::QueryError::UnknownView { .. } => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    }
}

fn unauthorized() -> Response<Body> {
    let why = "open the URL that the program has printed, or send `Authorization: Bearer TOKEN`";
    let mut response = text(StatusCode::UNAUTHORIZED, why);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}
