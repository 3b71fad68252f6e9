//! Requests and replies between cores: bounded, ordered, and never waited on by a core.
//!
//! Each ordered pair of cores has two wait-free queues, one for requests and one for their replies, both of `credits`
//! places. A request takes a credit, which comes back when its reply is taken in; so at most `credits` are outstanding,
//! and a reply always finds a place. Where the credits are used up, [`Mailbox::try_call`] hands the request back.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use rtrb::{Consumer, Producer, RingBuffer};
use slab::Slab;

use crate::ring::io::Io;
use crate::ring::task::{TaskId, WaitList};

/// One core's mailbox before its core runs; moves to the core's thread.
pub struct MailboxSeat<Q, R> {
    core_index: usize,
    peers: Vec<Peer<Q, R>>,
}

/// Connects `count` cores, each with each (and with itself); at most `credits` requests are outstanding for each pair.
///
/// # Panics
/// Where `credits` is 0.
pub fn mesh<Q, R>(count: usize, credits: usize) -> Vec<MailboxSeat<Q, R>> {
    assert!(credits > 0, "a mailbox without credits carries nothing");
    let mut seats: Vec<MailboxSeat<Q, R>> =
        (0..count).map(|core_index| MailboxSeat { core_index, peers: Vec::with_capacity(count) }).collect();
    // Queue ends in the order [from][to].
    let mut ends = Vec::with_capacity(count * count);
    for _ in 0..count * count {
        let (requests_out, requests_in) = RingBuffer::new(credits);
        let (replies_out, replies_in) = RingBuffer::new(credits);
        ends.push((Some((requests_out, replies_in)), Some((requests_in, replies_out))));
    }
    for (own, seat) in seats.iter_mut().enumerate() {
        for other in 0..count {
            let (requests_out, replies_in) = ends[own * count + other].0.take().expect("each end has one owner");
            let (requests_in, replies_out) = ends[other * count + own].1.take().expect("each end has one owner");
            seat.peers.push(Peer { requests_out, replies_in, requests_in, replies_out, outstanding: 0, credits });
        }
    }
    seats
}

impl<Q: 'static, R: 'static> MailboxSeat<Q, R> {
    /// Opens the mailbox on its core.
    ///
    /// # Panics
    /// Where `io` is of another core.
    pub fn bind(self, io: &Io) -> Mailbox<Q, R> {
        assert_eq!(self.core_index, io.core_index(), "a mailbox of another core");
        let inner = Rc::new(Inner {
            state: RefCell::new(State { peers: self.peers, calls: Slab::new(), next_peer: 0 }),
            request_waiters: WaitList::default(),
            credit_waiters: WaitList::default(),
            io: io.clone(),
        });
        // One task looks at the queues after each notice, and wakes those whom it concerns; so a thousand calls in
        // flight cost no more than one at each notice.
        let (weak, own_io) = (Rc::downgrade(&inner), io.clone());
        io.spawn(std::future::poll_fn(move |_| {
            own_io.note_notified();
            let Some(inner) = Weak::upgrade(&weak) else {
                return Poll::Ready(());
            };
            inner.take_in();
            Poll::Pending
        }));
        Mailbox { inner }
    }
}

/// A core's way to the others. Cheap to clone; never leaves its thread.
pub struct Mailbox<Q, R> {
    inner: Rc<Inner<Q, R>>,
}

impl<Q, R> Clone for Mailbox<Q, R> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<Q, R> {
    state: RefCell<State<Q, R>>,
    request_waiters: WaitList,
    credit_waiters: WaitList,
    io: Io,
}

struct State<Q, R> {
    peers: Vec<Peer<Q, R>>,
    calls: Slab<Call<R>>,
    /// Where the next look for a request begins, so that no peer is favoured.
    next_peer: usize,
}

struct Peer<Q, R> {
    requests_out: Producer<Request<Q>>,
    replies_in: Consumer<Reply<R>>,
    requests_in: Consumer<Request<Q>>,
    replies_out: Producer<Reply<R>>,
    /// Requests sent whose replies were not taken in.
    outstanding: usize,
    credits: usize,
}

struct Request<Q> {
    call: usize,
    body: Q,
}

struct Reply<R> {
    call: usize,
    /// `None` where the other core dropped the request.
    body: Option<R>,
}

enum Call<R> {
    Waiting(TaskId),
    Answered(Option<R>),
    /// Nobody wants the reply; its credit comes back all the same.
    Abandoned,
}

/// All credits to a core are used up; the request comes back. Try again after [`Mailbox::note_credit`] woke the task.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<Q>(pub Q);

/// The other core dropped the request without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other core dropped the request")]
pub struct Dropped;

/// A request of another core.
pub struct Incoming<Q, R> {
    /// Who asks.
    pub from: usize,
    /// What is asked.
    pub request: Q,
    /// Where the answer goes.
    pub reply: ReplyTo<Q, R>,
}

/// The place that is reserved for a reply. Dropping it without one tells the caller so ([`Dropped`]).
pub struct ReplyTo<Q, R> {
    inner: Rc<Inner<Q, R>>,
    from: usize,
    call: usize,
    sent: bool,
}

impl<Q, R> ReplyTo<Q, R> {
    /// Answers. Never waits.
    pub fn send(mut self, reply: R) {
        self.sent = true;
        self.inner.send_reply(self.from, Reply { call: self.call, body: Some(reply) });
    }
}

impl<Q, R> Drop for ReplyTo<Q, R> {
    fn drop(&mut self) {
        if !self.sent {
            self.inner.send_reply(self.from, Reply { call: self.call, body: None });
        }
    }
}

impl<Q, R> Mailbox<Q, R> {
    /// Cores that can be called, this one included.
    pub fn core_count(&self) -> usize {
        self.inner.state.borrow().peers.len()
    }

    /// Sends a request to `core`; requests to one core arrive in the order of these calls. Dropping the future discards
    /// the reply; the request is carried out all the same.
    ///
    /// # Errors
    /// [`Full`], with the request, where all credits to that core are used up.
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn try_call(&self, core: usize, request: Q) -> Result<CallFuture<Q, R>, Full<Q>> {
        let task = self.inner.io.current_task();
        let call = self.inner.send_request(core, request, Call::Waiting(task))?;
        Ok(CallFuture { inner: self.inner.clone(), call: Some(call) })
    }

    /// Sends a request whose reply nobody wants; in order with the calls, and under the same credits.
    ///
    /// # Errors
    /// As [`Mailbox::try_call`].
    ///
    /// # Panics
    /// Where there is no such core.
    pub fn try_post(&self, core: usize, request: Q) -> Result<(), Full<Q>> {
        self.inner.send_request(core, request, Call::Abandoned).map(drop)
    }

    /// Has the current task polled when a credit comes back.
    pub fn note_credit(&self) {
        self.inner.credit_waiters.wait(self.inner.io.current_task());
    }

    /// Sends a request and waits for its reply; waits for a credit first, where there is none.
    ///
    /// # Errors
    /// [`Dropped`].
    ///
    /// # Panics
    /// Where there is no such core.
    pub async fn call(&self, core: usize, request: Q) -> Result<R, Dropped> {
        let mut request = Some(request);
        let call = std::future::poll_fn(|_| {
            let body = request.take().expect("a request that was handed back is kept");
            match self.try_call(core, body) {
                Ok(call) => Poll::Ready(call),
                Err(Full(body)) => {
                    request = Some(body);
                    self.note_credit();
                    Poll::Pending
                }
            }
        });
        call.await.await
    }

    /// The next request of any core, each core's in the order sent. Else the current task is polled when one comes.
    pub fn poll_request(&self) -> Poll<Incoming<Q, R>> {
        let mut state = self.inner.state.borrow_mut();
        let count = state.peers.len();
        for step in 0..count {
            let from = (state.next_peer + step) % count;
            if let Ok(Request { call, body }) = state.peers[from].requests_in.pop() {
                state.next_peer = from + 1;
                drop(state);
                let reply = ReplyTo { inner: self.inner.clone(), from, call, sent: false };
                return Poll::Ready(Incoming { from, request: body, reply });
            }
        }
        drop(state);
        self.inner.request_waiters.wait(self.inner.io.current_task());
        Poll::Pending
    }
}

impl<Q, R> Inner<Q, R> {
    fn send_request(&self, core: usize, body: Q, call: Call<R>) -> Result<usize, Full<Q>> {
        let mut state = self.state.borrow_mut();
        let State { peers, calls, .. } = &mut *state;
        let peer = &mut peers[core];
        if peer.outstanding == peer.credits {
            return Err(Full(body));
        }
        peer.outstanding += 1;
        let call = calls.insert(call);
        let pushed = peer.requests_out.push(Request { call, body });
        assert!(pushed.is_ok(), "a credit is a place in the queue");
        drop(state);
        self.io.notify(core);
        Ok(call)
    }

    fn send_reply(&self, to: usize, reply: Reply<R>) {
        let pushed = self.state.borrow_mut().peers[to].replies_out.push(reply);
        assert!(pushed.is_ok(), "a reply has a reserved place");
        self.io.notify(to);
    }

    /// Takes in what came since the last notice; wakes those whom it concerns.
    fn take_in(&self) {
        let mut state = self.state.borrow_mut();
        let State { peers, calls, .. } = &mut *state;
        let mut unwanted = Vec::new();
        let mut credits_came = false;
        let mut requests_came = false;
        for peer in peers {
            requests_came |= !peer.requests_in.is_empty();
            while let Ok(Reply { call, body }) = peer.replies_in.pop() {
                peer.outstanding = peer.outstanding.checked_sub(1).expect("each reply answers one request");
                credits_came = true;
                match &mut calls[call] {
                    Call::Abandoned => {
                        calls.remove(call);
                        unwanted.push(body);
                    }
                    waiting => {
                        let before = std::mem::replace(waiting, Call::Answered(body));
                        let Call::Waiting(task) = before else { unreachable!("a call is answered once") };
                        self.io.wake(task);
                    }
                }
            }
        }
        drop(state);
        // Their destructors may come back here.
        drop(unwanted);
        if requests_came {
            self.io.wake_all(&self.request_waiters);
        }
        if credits_came {
            self.io.wake_all(&self.credit_waiters);
        }
    }
}

/// A request under way; its output is the reply.
pub struct CallFuture<Q, R> {
    inner: Rc<Inner<Q, R>>,
    call: Option<usize>,
}

impl<Q, R> Future for CallFuture<Q, R> {
    type Output = Result<R, Dropped>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        let call = self.call.expect("a call is answered once");
        let mut state = self.inner.state.borrow_mut();
        match &mut state.calls[call] {
            Call::Waiting(task) => {
                *task = self.inner.io.current_task();
                return Poll::Pending;
            }
            Call::Answered(_) => {}
            Call::Abandoned => unreachable!("a future that lives wants its reply"),
        }
        let Call::Answered(reply) = state.calls.remove(call) else { unreachable!("looked at above") };
        drop(state);
        self.call = None;
        Poll::Ready(reply.ok_or(Dropped))
    }
}

impl<Q, R> Drop for CallFuture<Q, R> {
    fn drop(&mut self) {
        let Some(call) = self.call.take() else { return };
        let mut state = self.inner.state.borrow_mut();
        let before = match &state.calls[call] {
            Call::Answered(_) => state.calls.remove(call),
            _ => std::mem::replace(&mut state.calls[call], Call::Abandoned),
        };
        drop(state);
        drop(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::tests::masks;
    use crate::ring::core::{CoreOptions, run};
    use crate::ring::mesh::CoreMesh;
    use crate::ring::ring_mask::RingMask;
    use std::future::{Future, poll_fn};

    /// Runs two cores, each with its end of a mailbox.
    fn two_cores<A, B>(
        ring_mask: RingMask,
        credits: usize,
        first: impl FnOnce(Io, Mailbox<u64, u64>) -> A + Send,
        second: impl FnOnce(Io, Mailbox<u64, u64>) -> B + Send,
    ) where
        A: Future<Output = ()> + 'static,
        B: Future<Output = ()> + 'static,
    {
        let cores = CoreMesh::new(2).unwrap();
        let mut seats = mesh::<u64, u64>(2, credits);
        let (other, own) = (seats.pop().unwrap(), seats.pop().unwrap());
        let options = CoreOptions { ring_mask, ..CoreOptions::default() };
        std::thread::scope(|scope| {
            let (theirs, seat) = (options.clone(), cores.seat(1));
            scope.spawn(move || run(theirs, seat, |io| second(io.clone(), other.bind(&io))).unwrap());
            run(options, cores.seat(0), |io| first(io.clone(), own.bind(&io))).unwrap();
        });
    }

    /// Answers 2 * n until it has answered 0.
    async fn double(mailbox: Mailbox<u64, u64>) {
        loop {
            let Incoming { from, request, reply } = poll_fn(|_| mailbox.poll_request()).await;
            assert_eq!(from, 0);
            reply.send(request * 2);
            if request == 0 {
                return;
            }
        }
    }

    #[test]
    fn calls_are_answered_also_when_they_wait_for_credits() {
        for mask in masks() {
            let first = |io: Io, mailbox: Mailbox<u64, u64>| async move {
                let left = Rc::new(std::cell::Cell::new(1000_u64));
                for n in 1..=1000 {
                    let (mailbox, left) = (mailbox.clone(), left.clone());
                    io.spawn(async move {
                        assert_eq!(mailbox.call(1, n).await, Ok(2 * n));
                        left.set(left.get() - 1);
                    });
                }
                while left.get() > 0 {
                    io.sleep_ms(1).await;
                }
                assert_eq!(mailbox.call(1, 0).await, Ok(0));
            };
            two_cores(mask, 4, first, |_, mailbox| double(mailbox));
        }
    }

    #[test]
    fn requests_arrive_in_order_and_a_full_mailbox_hands_them_back() {
        let first = |_: Io, mailbox: Mailbox<u64, u64>| async move {
            mailbox.try_post(1, 1).unwrap();
            let second = mailbox.try_call(1, 2).unwrap();
            mailbox.try_post(1, 3).unwrap();
            assert_eq!(mailbox.try_post(1, 4), Err(Full(4)), "three credits");
            drop(second);
            // The dropped call's credit comes back with its reply.
            for n in 4..=200 {
                while mailbox.try_post(1, n).is_err() {
                    let mut polled = false;
                    poll_fn(|_| {
                        mailbox.note_credit();
                        if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                }
            }
            assert_eq!(mailbox.call(1, 201).await, Err(Dropped));
            assert_eq!(mailbox.call(1, 202).await, Ok(7));
        };
        let second = |_: Io, mailbox: Mailbox<u64, u64>| async move {
            for want in 1..=200 {
                let incoming = poll_fn(|_| mailbox.poll_request()).await;
                assert_eq!(incoming.request, want);
                incoming.reply.send(0);
            }
            drop(poll_fn(|_| mailbox.poll_request()).await);
            poll_fn(|_| mailbox.poll_request()).await.reply.send(7);
        };
        two_cores(RingMask::NONE, 3, first, second);
    }

    #[test]
    fn a_core_can_call_itself() {
        let cores = CoreMesh::new(1).unwrap();
        let seat = mesh::<u64, u64>(1, 2).pop().unwrap();
        run(CoreOptions::default(), cores.seat(0), |io| {
            let mailbox = seat.bind(&io);
            io.spawn(double(mailbox.clone()));
            async move {
                assert_eq!(mailbox.call(0, 21).await, Ok(42));
            }
        })
        .unwrap();
    }
}
