//! Prepares the server of a cluster: `postroom-nats keys`.

use postroom_nats::keys::{KeysError, Plan};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Makes the keys of a cluster's nodes, and the configuration of its NATS server.

usage: postroom-nats keys --cluster NAME --nodes NAME,NAME,… [options]

  --cluster NAME     the name of the cluster, as in `Cluster::builder(NAME)`
  --nodes NAMES      the names of its nodes, as in `.node(NAME)`, separated by commas
  --out FOLDER       where the files are written, the current folder by default
  --tls-cert FILE    the server's certificate, a PEM file
  --tls-key FILE     its private key
  --listen ADDRESS   where the server listens, 0.0.0.0:4222 by default
  --store FOLDER     where the server keeps its store, ./jetstream by default
  --help             this text

It writes NAME.conf for the server, and a file NODE.nk with the secret of each node, which only their owner may read.
Files that are there already are not written over. Each node takes its own secret:

  Nats::at(\"tls://nats.example:4222\").nkey(std::fs::read_to_string(\"eu-1.nk\")?.trim())
";

/// An error in the arguments, or the reason why the files were not written.
#[derive(Debug, thiserror::Error)]
enum ToolError {
    #[error("there is no command; it is `postroom-nats keys`")]
    NoCommand,
    #[error("`{0}` is no command; it is `postroom-nats keys`")]
    Command(String),
    #[error("`{0}` is no option; see `postroom-nats --help`")]
    Option(String),
    #[error("`{0}` needs a value after it")]
    Value(String),
    #[error("`{0}` is given twice; give it once")]
    Twice(String),
    #[error("`{0}` is missing; see `postroom-nats --help`")]
    Missing(&'static str),
    #[error("`--tls-cert` and `--tls-key` belong together; give both, or none to put in the paths later")]
    HalfOfTls,
    #[error("an argument is not UTF-8")]
    NotText,
    #[error(transparent)]
    Keys(#[from] KeysError),
}

impl ToolError {
    /// Returns the exit code: 2 if the arguments are wrong, otherwise 1.
    fn code(&self) -> u8 {
        match self {
            Self::Keys(KeysError::Exists { .. } | KeysError::Write { .. } | KeysError::Draw { .. }) => 1,
            _ => 2,
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("postroom-nats: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run() -> Result<(), ToolError> {
    let arguments = std::env::args_os().skip(1).map(|argument| argument.into_string().map_err(|_| ToolError::NotText));
    let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return Ok(());
    }
    match arguments.split_first() {
        None => Err(ToolError::NoCommand),
        Some((command, rest)) if command == "keys" => keys(rest),
        Some((command, _)) => Err(ToolError::Command(command.clone())),
    }
}

/// The values of the options.
#[derive(Default)]
struct Options {
    cluster: Option<String>,
    nodes: Option<String>,
    out: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    listen: Option<String>,
    store: Option<String>,
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self, ToolError> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option.as_str(), None),
            };
            let place = match name {
                "--cluster" => &mut options.cluster,
                "--nodes" => &mut options.nodes,
                "--out" => &mut options.out,
                "--tls-cert" => &mut options.certificate,
                "--tls-key" => &mut options.key,
                "--listen" => &mut options.listen,
                "--store" => &mut options.store,
                _ => return Err(ToolError::Option(option.clone())),
            };
            let value = value.or_else(|| arguments.next().cloned()).ok_or_else(|| ToolError::Value(name.into()))?;
            if place.replace(value).is_some() {
                return Err(ToolError::Twice(name.into()));
            }
        }
        Ok(options)
    }
}

fn keys(arguments: &[String]) -> Result<(), ToolError> {
    let Options { cluster, nodes, out, certificate, key, listen, store } = Options::read(arguments)?;
    let cluster = cluster.ok_or(ToolError::Missing("--cluster"))?;
    let nodes = nodes.ok_or(ToolError::Missing("--nodes"))?;
    let mut plan = Plan::new(cluster, nodes.split(',').map(str::trim));
    let has_tls = certificate.is_some();
    plan = match (certificate, key) {
        (Some(certificate), Some(key)) => plan.tls(certificate, key),
        (None, None) => plan,
        _ => return Err(ToolError::HalfOfTls),
    };
    plan = listen.into_iter().fold(plan, Plan::listen);
    plan = store.into_iter().fold(plan, Plan::store);
    let folder = out.map_or_else(|| PathBuf::from("."), PathBuf::from);
    let written = plan.make()?.write_to(&folder)?;
    report(&written, has_tls);
    Ok(())
}

fn report(written: &[PathBuf], has_tls: bool) {
    let show = |path: &Path| println!("{}", path.display());
    written.iter().for_each(|path| show(path));
    let Some(configuration) = written.first() else { return };
    if !has_tls {
        eprintln!("put the paths of the server's certificate and of its key into `{}`", configuration.display());
    }
    eprintln!(
        "give each node its own file, keep no other copy, and start `nats-server -c {}`",
        configuration.display()
    );
}
