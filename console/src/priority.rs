//! The console's threads with much to do give way to the threads of the program.

/// How much nicer they are. A guess: with this the system gives them about a tenth of the time of another thread that
/// wants all it can get, so that the page is slow at worst while all workers compute.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// Has the calling thread give way. Where the system cannot do that for one thread, it goes on as it is.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // Linux has a priority for each thread.
        let own = Some(rustix::thread::gettid());
        let _as_it_is = getpriority_process(own).and_then(|now| setpriority_process(own, (now + NICER).min(19)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;
    use std::thread;

    #[test]
    fn one_thread_gives_way_and_no_other() {
        let now = || getpriority_process(Some(rustix::thread::gettid())).expect("it is alive");
        let before = now();
        let of_another = thread::spawn(move || {
            give_way();
            now()
        });
        assert_eq!(of_another.join().expect("it ends"), (before + NICER).min(19));
        assert_eq!(now(), before);
    }
}
