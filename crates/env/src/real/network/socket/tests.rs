use super::*;

#[test]
fn no_error_ends_a_door_and_what_would_only_come_again_is_given_time() {
    let rest = |code: i32| rest_after(&io::Error::from_raw_os_error(code));
    for code in [libc::EINTR, libc::ECONNABORTED] {
        assert_eq!(rest(code), Duration::ZERO, "{}", io::Error::from_raw_os_error(code));
    }
    let exhausted = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
    let refused = [libc::EPERM, libc::EACCES, libc::EPROTO, libc::ENETDOWN, libc::EHOSTUNREACH, libc::EOPNOTSUPP];
    for code in exhausted.into_iter().chain(refused).chain([libc::EIO, libc::EINVAL]) {
        assert_eq!(rest(code), REST, "{}", io::Error::from_raw_os_error(code));
    }
}
