//! A web crawler with limits on its depth, its number of pages, its concurrent requests, and its rate for each host.
//!
//! ```text
//! cargo run --example crawler
//! ```
//!
//! ```text
//! crawler ──visit──▶ sites ──fetch──▶ fetchers ──get──▶ the web (which this program invents)
//!           one process per host     four processes
//! ```
//!
//! No code checks the last two limits. They follow from the processes: a *keyed pool* has one process per host, which
//! makes one request and then pauses, and a *fixed pool* of four fetchers makes at most four requests at a time.
//!
//! The web is as unreliable as usual: one page is busy at first, one never answers, one does not exist. Things to look
//! for in the output: the number of attempts for each page, and the limits as measured by the web itself. The clock is
//! virtual, so the crawl takes no time in spite of its pauses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use postroom::prelude::*;
use tokio::runtime::Handle;

/// Maximum number of links between the start and a page.
const DEPTH: usize = 3;

/// Number of pages to visit.
const PAGES: usize = 20;

/// Maximum number of concurrent requests.
const FETCHERS: usize = 4;

/// Pause between two requests to the same host.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit of a request.
const LIMIT: Duration = Duration::from_secs(5);

/// Number of attempts before a page is given up.
const ATTEMPTS: u32 = 3;

/// `host/path`
type Url = String;
type Links = Vec<Url>;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("not found")]
    NotFound,
    #[error("busy")]
    Busy,
    #[error("no answer in time")]
    TooSlow,
    #[error("could not be asked for")]
    NotAsked,
}

/// Returns the links of a page, or the reason why it has none. `request` counts the requests for the page.
fn page(url: &str, request: u32) -> Result<Links, Failure> {
    let links: &[&str] = match url {
        "ant.example/" => &["ant.example/1", "bee.example/", "cat.example/", "dog.example/", "elk.example/"],
        "ant.example/1" => &["ant.example/", "ant.example/2"],
        "ant.example/2" => &["ant.example/3", "ant.example/4", "ant.example/5"],
        "ant.example/3" => &["ant.example/too-deep"],
        "bee.example/" => &["bee.example/busy", "bee.example/missing", "cat.example/"],
        "bee.example/busy" if request < 3 => return Err(Failure::Busy),
        "bee.example/missing" => return Err(Failure::NotFound),
        "cat.example/" => &["cat.example/silent", "cat.example/1", "cat.example/2", "cat.example/3"],
        "dog.example/" => &["dog.example/1", "dog.example/2", "dog.example/3", "dog.example/4", "dog.example/5"],
        _ => &[],
    };
    Ok(links.iter().map(ToString::to_string).collect())
}

/// Returns the part of a URL before the first slash.
fn host(url: &str) -> String {
    url.split('/').next().unwrap_or_default().to_string()
}

/// The simulated Internet. It also measures the requests.
#[process]
#[derive(Default)]
struct Web {
    requests: HashMap<Url, u32>,
    latest: HashMap<String, Instant>,
    shortest_pause: Option<Duration>,
    under_way: usize,
    most_under_way: usize,
    unanswered: Vec<Reply<Result<Links, Failure>>>,
}

#[process]
impl Web {
    #[entry]
    fn serve(&mut self) {}

    /// Answers after a while, and handles other requests in the meantime.
    #[message]
    fn get(&mut self, ctx: &mut Context<Self>, url: Url, reply: Reply<Result<Links, Failure>>) {
        let request = self.requests.entry(url.clone()).or_default();
        *request += 1;
        let answer = page(&url, *request);
        if let Some(latest) = self.latest.insert(host(&url), ctx.now()) {
            let pause = ctx.now() - latest;
            self.shortest_pause = Some(self.shortest_pause.map_or(pause, |shortest| shortest.min(pause)));
        }
        if url.ends_with("silent") {
            return self.unanswered.push(reply);
        }
        self.under_way += 1;
        self.most_under_way = self.most_under_way.max(self.under_way);
        ctx.run(ctx.sleep(Duration::from_millis(300))).then(move |this, (), _| {
            this.under_way -= 1;
            reply.send(answer);
        });
    }

    /// Returns the largest number of concurrent requests, and the shortest time between two requests to the same host.
    #[message]
    fn measured(&self) -> (usize, Option<Duration>) {
        (self.most_under_way, self.shortest_pause)
    }
}

/// A process that makes one request at a time.
#[process]
struct Fetcher {
    web: Address<Web>,
}

#[process]
impl Fetcher {
    #[entry]
    fn serve(&mut self) {}

    #[message]
    async fn fetch(&mut self, url: Url) -> Result<Links, Failure> {
        self.web.get(url).timeout(LIMIT).await.map_err(|error| match error {
            CallError::Failed(failure) => failure,
            CallError::Timeout => Failure::TooSlow,
            _ => Failure::NotAsked,
        })
    }
}

/// A process that visits the pages of one host in sequence.
#[process]
struct Site {
    fetchers: Address<Fetcher>,
    next: Option<Instant>,
}

struct Visit {
    attempts: u32,
    links: Result<Links, Failure>,
}

#[process]
impl Site {
    #[entry]
    fn serve(&mut self) {}

    /// Retries after any failure, since it may be temporary, except if the page does not exist. Requesting a page twice
    /// does no harm.
    #[message]
    async fn visit(&mut self, ctx: &mut Context<Self>, url: Url) -> Visit {
        for attempts in 1.. {
            if let Some(next) = self.next {
                ctx.sleep_until(next).await;
            }
            // The fetcher limits the duration of the request. The time that the site waits for a free fetcher does not
            // count.
            let answer = self.fetchers.fetch(url.clone()).timeout(Duration::MAX).await;
            self.next = Some(ctx.now() + PAUSE);
            let links = answer.map_err(|error| error.failed().unwrap_or(Failure::NotAsked));
            if attempts == ATTEMPTS || matches!(links, Ok(_) | Err(Failure::NotFound)) {
                return Visit { attempts, links };
            }
        }
        unreachable!("the last attempt returns")
    }
}

#[process]
struct Crawler {
    sites: Address<Site>,
}

struct Page {
    depth: usize,
    visit: Visit,
}

#[process]
impl Crawler {
    /// Visits the pages level by level, so that each one is found by the shortest chain of links.
    #[entry]
    async fn crawl(&mut self, start: Url) -> BTreeMap<Url, Page> {
        let mut pages = BTreeMap::new();
        let mut level = BTreeSet::from([start]);
        for depth in 0..=DEPTH {
            let urls: Vec<Url> = level.into_iter().take(PAGES - pages.len()).collect();
            let visit = |url: &Url| self.sites.visit(url.clone()).timeout(Duration::MAX).into_future();
            let visits = join_all(urls.iter().map(visit)).await;
            let failed = |_| Visit { attempts: 0, links: Err(Failure::NotAsked) };
            let visits = visits.into_iter().map(|visit| visit.unwrap_or_else(failed));
            pages.extend(urls.into_iter().zip(visits).map(|(url, visit)| (url, Page { depth, visit })));
            let links = pages.values().filter_map(|page| page.visit.links.as_ref().ok()).flatten();
            level = links.filter(|url| !pages.contains_key(*url)).cloned().collect();
        }
        pages
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::manual(); // a program that visits the real web leaves this out
    // Where a client for the web needs Tokio, processes run on the threads of Tokio.
    let runtime = Runtime::builder().on_tokio(Handle::current()).clock(clock.clone()).build()?;
    let web = runtime.spawn(Web::default()).serve()?;
    let fetchers = Pool::fixed(FETCHERS).spawn(&runtime, move |spawn| spawn.of(Fetcher { web }).serve())?.address();
    let sites = Pool::by_key(|visit: &SiteVisit| host(&visit.url))
        .spawn(&runtime, move |spawn, _| spawn.of(Site { fetchers, next: None }).serve())?;
    let crawl = runtime.spawn(Crawler { sites: sites.address() }).crawl("ant.example/".to_string())?;
    clock.advance(Duration::from_secs(600))?;

    println!("{:<22}{:>5}{:>10}  result", "page", "depth", "attempts");
    let (pages, mut beyond) = (crawl.await?, BTreeSet::new());
    for (url, Page { depth, visit: Visit { attempts, links } }) in &pages {
        let result = links.as_ref().map_or_else(ToString::to_string, |links| format!("links: {}", links.len()));
        println!("{url:<22}{depth:>5}{attempts:>10}  {result}");
        beyond.extend(links.iter().flatten().filter(|url| !pages.contains_key(*url)));
    }
    println!("beyond the limits: {beyond:?}");
    let (most, pause) = web.measured().await?;
    println!("most requests at a time: {most}, shortest pause: {:.1?}", pause.unwrap_or_default());
    println!("clean shutdown: {}", runtime.drain_async(Duration::from_secs(10)).await?.is_clean());
    Ok(())
}
