//! Lowers the priority of the console's busy threads below that of the program's threads.

/// Increase of the nice value. A guess: the system then gives a console thread about a tenth of the time that it gives
/// another thread that never sleeps. So at worst the page is slow while all workers compute.
#[cfg(target_os = "linux")]
const NICER: i32 = 10;

/// Lowers the priority of the calling thread. Does nothing on systems that cannot do this for a single thread.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // On Linux, each thread has its own priority.
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
