//! The queue alone: who is ahead of whom, and for which session.

use std::time::Duration;

use super::*;

const SESSION: i64 = (7 << WINDOW_BITS) + 4_711;

fn queue(root: &std::path::Path) -> Queue {
    Queue::open(Arc::new(Directory::open(root, false).unwrap())).unwrap()
}

#[test]
fn the_ticket_ahead_is_the_last_earlier_one_that_still_exists() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, other_process) = (queue(dir.path()), queue(dir.path()));
    assert!(queue.is_empty(SESSION).unwrap());
    let mut tickets: Vec<Ticket> = (0..9)
        .map(|n| if n % 2 == 0 { &queue } else { &other_process }.enter(SESSION).unwrap())
        .collect();
    assert!(!queue.is_empty(SESSION).unwrap() && !other_process.is_empty(SESSION).unwrap());
    // Others' queues are no part of it, also that of the neighbour.
    let _strangers = [queue.enter(SESSION - (1 << WINDOW_BITS)).unwrap(), queue.enter(1).unwrap()];
    assert_eq!(tickets[0].ahead().unwrap(), None);
    for gone in [4, 4, 0, 5] {
        drop(tickets.remove(gone));
        for pair in tickets.windows(2) {
            assert!(pair[0].byte < pair[1].byte, "in the order of arrival");
            assert_eq!(pair[1].ahead().unwrap(), Some(pair[0].byte));
        }
        assert_eq!(tickets[0].ahead().unwrap(), None);
    }
    tickets.clear();
    assert!(queue.is_empty(SESSION).unwrap());
}

#[test]
fn overtaken_tickets_and_those_before_them_do_not_count_for_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path());
    let tickets: Vec<Ticket> = (0..3).map(|_| queue.enter(SESSION).unwrap()).collect();
    let stranger = queue.enter(1).unwrap();
    queue.overtake(tickets[1].byte);
    assert_eq!(tickets[2].ahead().unwrap(), None);
    assert!(!queue.is_empty(SESSION).unwrap(), "a later ticket counts");
    assert!(!queue.is_empty(1).unwrap(), "other sessions are not concerned");
    drop((tickets, stranger));
    let tickets = [queue.enter(SESSION).unwrap(), queue.enter(SESSION).unwrap()];
    assert_eq!(tickets[1].ahead().unwrap(), Some(tickets[0].byte), "a new ticket is waited for");
    queue.overtake(tickets[0].byte);
    let since = Instant::now().checked_sub(OVERTAKEN_MAX).unwrap();
    *queue.overtaken.lock().unwrap() = Some((tickets[0].byte, since));
    assert_eq!(tickets[1].ahead().unwrap(), Some(tickets[0].byte), "it is forgotten");
}

#[test]
fn the_end_of_a_ticket_wakes_a_watcher_of_its_wake_file() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    let dir = tempfile::tempdir().unwrap();
    let queue = queue(dir.path());
    let ticket = queue.enter(SESSION).unwrap();
    let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    add_watch(&events, queue.wake_path(ticket.byte), WatchFlags::CLOSE_WRITE).unwrap();
    let told = |wait: Duration| {
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        poll(&mut [PollFd::new(&events, PollFlags::IN)], Some(&timeout)).unwrap() > 0
    };
    let other = queue.enter(SESSION).unwrap();
    assert!(!told(Duration::ZERO), "nobody has left");
    drop(ticket);
    assert!(told(Duration::from_millis(900)));
    assert_eq!(other.ahead().unwrap(), None, "it had left when that was told");
}
