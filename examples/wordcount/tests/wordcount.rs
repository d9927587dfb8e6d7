//! Runs the built `wordcount` on generated files and compares it with `tr`, `sort` and `uniq`.
//!
//! Blind spots: memory and speed are measured by hand, not here. Which races between readers can happen depends on the
//! number of the machine's cores.
#![cfg(unix)]

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::process::{Command, Output, Stdio};

use tempfile::{TempDir, tempdir};

#[path = "../../tests/words/mod.rs"]
mod words;

use words::{Numbers, Tested, files, reference, same};

fn wordcount<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<Output, Box<dyn Error>> {
    Ok(Command::new(env!("CARGO_BIN_EXE_wordcount")).args(arguments).output()?)
}

/// Checks that the counts of the directory agree with the usual tools, and that nothing was skipped.
#[track_caller]
fn agrees(directory: &TempDir) -> Tested {
    let output = wordcount([OsStr::new("--all"), directory.path().as_os_str()])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    same(&output.stdout, &reference(&files(directory.path())?)?);
    Ok(())
}

#[test]
fn many_small_files() -> Tested {
    let directory = tempdir()?;
    let mut numbers = Numbers(1);
    for file in 0..200 {
        let folder = directory.path().join(format!("{}/{}", file % 7, file % 3));
        fs::create_dir_all(&folder)?;
        let length = numbers.below(2000) as usize;
        fs::write(folder.join(file.to_string()), numbers.text(length))?;
    }
    agrees(&directory)
}

#[test]
fn one_file_of_several_mib() -> Tested {
    let directory = tempdir()?;
    fs::write(directory.path().join("large"), Numbers(2).text(5 << 20))?;
    agrees(&directory)
}

#[test]
fn a_word_across_two_chunks_is_one_word() -> Tested {
    const CHUNK: usize = 64 * 1024;
    let directory = tempdir()?;
    // Each file has a word that ends a few bytes before, at or after the end of the first chunk.
    for ahead in 0..12 {
        let mut text = vec![b' '; CHUNK - ahead];
        text.extend_from_slice(b"boundary next");
        fs::write(directory.path().join(ahead.to_string()), text)?;
    }
    agrees(&directory)
}

#[test]
fn a_word_across_two_pieces_of_a_large_file_is_one_word() -> Tested {
    const PIECE: u64 = 16 << 20;
    let directory = tempdir()?;
    for ahead in 0..10 {
        let file = File::create(directory.path().join(ahead.to_string()))?;
        file.write_all_at(b"start", 0)?;
        file.write_all_at(b"one boundary next", PIECE - 2 * ahead)?;
    }
    // This word extends further beyond the end of its piece than a reader reads at a time.
    let file = File::create(directory.path().join("long"))?;
    file.write_all_at(&[b'x'; 5000], PIECE - 100)?;
    file.write_all_at(b" end", PIECE + 4900)?;
    agrees(&directory)
}

#[test]
fn a_word_of_several_pieces_is_one_word() -> Tested {
    let directory = tempdir()?;
    let mut text = b"before ".to_vec();
    text.resize(36 << 20, b'x');
    text.extend_from_slice(b" after");
    fs::write(directory.path().join("giant"), text)?;
    agrees(&directory)
}

#[test]
fn words_larger_than_a_message() -> Tested {
    let directory = tempdir()?;
    for length in [65_522, 65_523, 65_536, 100_000, 131_072, 1_000_000] {
        let text = [vec![b'l'; length], b" short ".to_vec(), vec![b'm'; length]].concat();
        fs::write(directory.path().join(length.to_string()), text)?;
    }
    agrees(&directory)
}

#[test]
fn words_never_span_files() -> Tested {
    let directory = tempdir()?;
    for file in 0..100 {
        fs::write(directory.path().join(file.to_string()), "half")?;
    }
    let output = wordcount([OsStr::new("--all"), directory.path().as_os_str()])?;
    assert_eq!(String::from_utf8(output.stdout)?, "100 half\n");
    agrees(&directory)
}

#[test]
fn empty_and_binary_files_and_no_last_newline() -> Tested {
    let directory = tempdir()?;
    let mut numbers = Numbers(3);
    let binary: Vec<u8> = (0..300_000).map(|_| numbers.below(256) as u8).collect();
    fs::write(directory.path().join("empty"), "")?;
    fs::write(directory.path().join("binary"), binary)?;
    fs::write(directory.path().join("zeros"), [0; 100_000])?;
    fs::write(directory.path().join("open end"), "one two\nTHREE")?;
    fs::write(directory.path().join("umlauts"), "Größe caf\u{e9} d\u{2019}or na\u{ef}ve")?;
    agrees(&directory)
}

#[test]
fn nothing_to_count() -> Tested {
    let directory = tempdir()?;
    let output = wordcount([OsStr::new("--all"), directory.path().as_os_str()])?;
    assert!(output.status.success());
    assert!(output.stdout.is_empty());
    Ok(())
}

#[test]
fn names_that_are_not_utf8_or_look_like_options() -> Tested {
    let directory = tempdir()?;
    let odd = directory.path().join(OsString::from_vec(b"caf\xe9 \n\xff".to_vec()));
    fs::create_dir(&odd)?;
    fs::write(odd.join(OsString::from_vec(b"--all\xfe".to_vec())), "odd names count")?;
    agrees(&directory)?;
    let output = Command::new(env!("CARGO_BIN_EXE_wordcount"))
        .current_dir(&odd)
        .args(["--all", "--"])
        .arg(OsString::from_vec(b"--all\xfe".to_vec()))
        .output()?;
    assert_eq!(String::from_utf8(output.stdout)?, "1 count\n1 names\n1 odd\n");
    Ok(())
}

#[test]
fn several_paths_and_one_of_them_twice() -> Tested {
    let directory = tempdir()?;
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    fs::write(&one, "a b")?;
    fs::write(&two, "b c")?;
    let output = wordcount([OsStr::new("--all"), one.as_ref(), two.as_ref(), one.as_ref()])?;
    assert_eq!(String::from_utf8(output.stdout)?, "2 a\n3 b\n1 c\n");
    Ok(())
}

#[test]
fn missing_files_are_named_and_skipped() -> Tested {
    let directory = tempdir()?;
    let present = directory.path().join("present");
    fs::write(&present, "still counted")?;
    let (missing, beneath) = (directory.path().join("missing"), present.join("beneath"));
    let output = wordcount([OsStr::new("--all"), missing.as_ref(), present.as_ref(), beneath.as_ref()])?;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8(output.stdout)?, "1 counted\n1 still\n");
    let stderr = String::from_utf8(output.stderr)?;
    for path in [missing, beneath] {
        assert!(stderr.contains(&format!("wordcount: {}: ", path.display())), "{stderr}");
    }
    assert!(stderr.contains("2 skipped"), "{stderr}");
    Ok(())
}

#[test]
fn unreadable_files_are_named_and_skipped() -> Tested {
    let directory = tempdir()?;
    let (closed, open) = (directory.path().join("closed"), directory.path().join("open"));
    fs::write(&closed, "secret")?;
    fs::write(&open, "public")?;
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000))?;
    // Root can read any file.
    let refused = File::open(&closed).is_err();
    let output = wordcount([OsStr::new("--all"), directory.path().as_os_str()])?;
    let (status, counted) = if refused { (1, "1 public\n") } else { (0, "1 public\n1 secret\n") };
    assert_eq!(output.status.code(), Some(status));
    assert_eq!(String::from_utf8(output.stdout)?, counted);
    assert_eq!(String::from_utf8(output.stderr)?.contains("closed: "), refused);
    Ok(())
}

/// Tests a file that can be opened, but not read.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_fails_while_it_is_read_is_named_and_skipped() -> Tested {
    let output = wordcount(["--all", "/proc/self/mem"])?;
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr)?.contains("wordcount: /proc/self/mem: "));
    assert!(output.stdout.is_empty());
    Ok(())
}

#[test]
fn links_in_circles_do_not_hang() -> Tested {
    let directory = tempdir()?;
    fs::write(directory.path().join("file"), "once")?;
    symlink(directory.path(), directory.path().join("circle"))?;
    symlink("itself", directory.path().join("itself"))?;
    agrees(&directory)?;
    // A link on the command line is followed.
    let output = wordcount([OsStr::new("--all"), directory.path().join("circle").as_os_str()])?;
    assert_eq!(String::from_utf8(output.stdout)?, "1 once\n");
    Ok(())
}

#[test]
fn a_pipe_can_be_counted() -> Tested {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wordcount"))
        .args(["--all", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    child.stdin.take().ok_or("no pipe")?.write_all(b"through a pipe")?;
    assert_eq!(String::from_utf8(child.wait_with_output()?.stdout)?, "1 a\n1 pipe\n1 through\n");
    Ok(())
}

#[test]
fn the_most_frequent_words_come_first() -> Tested {
    let directory = tempdir()?;
    let words = (0..30).map(|word| format!("w{} ", "x".repeat(word)).repeat(30 - word)).collect::<String>();
    fs::write(directory.path().join("file"), words)?;
    let output = String::from_utf8(wordcount([directory.path()])?.stdout)?;
    let lines: Vec<&str> = output.lines().map(str::trim).collect();
    assert_eq!(lines.len(), 21, "{output}");
    assert_eq!((lines[0], lines[1], lines[19]), ("30 w", "29 wx", &*format!("11 w{}", "x".repeat(19))));
    assert!(lines[20].starts_with("1 files, ") && lines[20].contains("465 words"), "{output}");
    Ok(())
}

#[test]
fn without_a_path_it_counts_this_repository() -> Tested {
    let output = wordcount(["--all"])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.windows(10).any(|text| text == b" postroom\n"));
    Ok(())
}

#[test]
fn an_unknown_option_is_a_usage_error() -> Tested {
    for option in ["--al", "-x", "-"] {
        let output = wordcount([option])?;
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(output.stdout.is_empty());
        let stderr = String::from_utf8(output.stderr)?;
        assert!(stderr.contains(&format!("no option {option}\n")) && stderr.contains("usage:"), "{stderr}");
    }
    assert_eq!(wordcount(["--help"])?.status.code(), Some(0));
    Ok(())
}

#[test]
fn whoever_reads_the_output_may_stop_early() -> Tested {
    let directory = tempdir()?;
    fs::write(directory.path().join("large"), Numbers(4).text(3 << 20))?;
    let mut child = Command::new(env!("CARGO_BIN_EXE_wordcount"))
        .arg("--all")
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
