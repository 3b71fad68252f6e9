//! A line to stand in: what was first in it goes first, whatever it has to wait for.

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use crate::ring::io::Io;
use crate::ring::task::WaitList;

/// Hands out places in order. Those before a place that was taken and dropped never hold it up.
#[derive(Default)]
pub struct Lane {
    next: Cell<u64>,
    served: Cell<u64>,
    waiters: WaitList,
}

/// A place in a [`Lane`]. Dropping it lets the next go on.
pub struct LanePlace {
    lane: Rc<Lane>,
    io: Io,
    number: u64,
}

impl Lane {
    /// The last place in the line.
    pub fn enter(self: &Rc<Self>, io: &Io) -> LanePlace {
        let number = self.next.get();
        self.next.set(number + 1);
        LanePlace { lane: self.clone(), io: io.clone(), number }
    }
}

impl LanePlace {
    /// Waits until all who came before have left.
    pub async fn wait_turn(&self) {
        poll_fn(|_| {
            if self.lane.served.get() >= self.number {
                return Poll::Ready(());
            }
            self.lane.waiters.wait(self.io.current_task());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        // Places are given up in order, but where a core stops: then all of the line goes.
        self.lane.served.set(self.lane.served.get().max(self.number + 1));
        self.io.wake_all(&self.lane.waiters);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::sim::options::SimOptions;
    use crate::ring::sim::world::Sim;
    use std::cell::RefCell;

    #[test]
    fn who_came_first_goes_first_whoever_is_ready_first() {
        let sim = Sim::new(SimOptions::calm(1));
        let io = sim.machine().core(0);
        let lane: Rc<Lane> = Rc::default();
        let order = Rc::new(RefCell::new(Vec::new()));
        let done = Rc::new(Cell::new(0));
        for (name, delay_ms) in [("slow", 30), ("quick", 1), ("at once", 0)] {
            let (lane, order, io_of_task, done) = (lane.clone(), order.clone(), io.clone(), done.clone());
            io.spawn(async move {
                let place = lane.enter(&io_of_task);
                io_of_task.sleep_ms(delay_ms).await;
                place.wait_turn().await;
                order.borrow_mut().push(name);
                done.set(done.get() + 1);
            });
        }
        let waiter = io.clone();
        let all_done = async move {
            while done.get() < 3 {
                waiter.sleep_ms(1).await;
            }
        };
        assert!(sim.run(&io, 1_000_000_000, all_done).is_ok());
        assert_eq!(*order.borrow(), ["slow", "quick", "at once"]);
    }

    #[test]
    fn a_place_that_is_given_up_holds_nobody_up() {
        let sim = Sim::new(SimOptions::calm(2));
        let io = sim.machine().core(0);
        let lane: Rc<Lane> = Rc::default();
        let (first, second) = (lane.enter(&io), lane.enter(&io));
        drop(first);
        let went = async move { second.wait_turn().await };
        assert!(sim.run(&io, 1_000_000_000, went).is_ok());
    }
}
