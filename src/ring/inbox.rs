//! Messages from ordinary threads to one core.

use std::sync::mpsc;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::mesh::Notifier;

/// Makes an inbox of `messages_max` places; `notifier` is of the core that will read it.
pub fn inbox<T: Send>(messages_max: usize, notifier: Notifier) -> (Outbox<T>, Inbox<T>) {
    let (sender, receiver) = mpsc::sync_channel(messages_max);
    (Outbox { sender, notice: NoticeAtEnd(notifier) }, Inbox { receiver })
}

/// A thread's end: never waits.
pub struct Outbox<T> {
    /// Dropped before the notice below, so that the reader sees the end.
    sender: mpsc::SyncSender<T>,
    notice: NoticeAtEnd,
}

struct NoticeAtEnd(Notifier);

impl Drop for NoticeAtEnd {
    fn drop(&mut self) {
        self.0.notify();
    }
}

impl<T> Clone for Outbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), notice: NoticeAtEnd(self.notice.0.clone()) }
    }
}

impl<T> Outbox<T> {
    /// Leaves a message and wakes the core; the message comes back where the inbox is full or gone.
    ///
    /// # Errors
    /// With the message.
    pub fn try_send(&self, message: T) -> Result<(), mpsc::TrySendError<T>> {
        self.sender.try_send(message)?;
        self.notice.0.notify();
        Ok(())
    }
}

/// The core's end.
pub struct Inbox<T> {
    receiver: mpsc::Receiver<T>,
}

impl<T> Inbox<T> {
    /// The next message; `None` where all senders are gone. Else the current task is polled at the next notice.
    pub fn poll_message(&self, io: &Io) -> Poll<Option<T>> {
        io.note_notified();
        match self.receiver.try_recv() {
            Ok(message) => Poll::Ready(Some(message)),
            Err(mpsc::TryRecvError::Empty) => Poll::Pending,
            Err(mpsc::TryRecvError::Disconnected) => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::core::{CoreOptions, run};
    use crate::ring::mesh::CoreMesh;
    use std::future::poll_fn;

    #[test]
    fn messages_of_a_thread_arrive_in_order_then_the_end() {
        let mesh = CoreMesh::new(1).unwrap();
        let (outbox, inbox) = inbox::<u32>(4, mesh.notifier(0));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for mut message in 0..1000 {
                    while let Err(mpsc::TrySendError::Full(back)) = outbox.try_send(message) {
                        message = back;
                        std::thread::yield_now();
                    }
                }
            });
            run(CoreOptions::default(), mesh.seat(0), |io| async move {
                for want in 0..1000 {
                    assert_eq!(poll_fn(|_| inbox.poll_message(&io)).await, Some(want));
                }
                assert_eq!(poll_fn(|_| inbox.poll_message(&io)).await, None);
            })
            .unwrap();
        });
    }
}
