//! LeaveGroup: members go without being waited for.

use crate::group::classic_group::{ClassicGroup, ClassicState};
use crate::group::request::Leaver;
use crate::group::turn::Turn;
use crate::wire::error_code::ErrorCode;

impl ClassicGroup {
    /// Lets members go; a code for each.
    pub(in crate::group) fn leave(&mut self, leavers: &[Leaver], turn: &mut Turn<'_>) -> Vec<ErrorCode> {
        let codes: Vec<ErrorCode> =
            leavers.iter().map(|leaver| self.leave_one(leaver, turn).err().unwrap_or_default()).collect();
        if codes.contains(&ErrorCode::None) {
            match self.state() {
                ClassicState::Stable | ClassicState::CompletingRebalance => {
                    self.prepare_rebalance("a member left", turn);
                }
                ClassicState::PreparingRebalance => self.complete_joins_if_ready(turn),
                ClassicState::Empty => {}
            }
        }
        codes
    }

    fn leave_one(&mut self, leaver: &Leaver, turn: &mut Turn<'_>) -> Result<(), ErrorCode> {
        let member_id = if leaver.member_id.is_empty() {
            // An administrator knows the instance alone.
            let instance_id = leaver.instance_id.as_deref().ok_or(ErrorCode::UnknownMemberId)?;
            self.static_member_id(instance_id).ok_or(ErrorCode::UnknownMemberId)?
        } else {
            leaver.member_id.as_str().into()
        };
        if !self.is_pending_join(&member_id) {
            let instance_id = leaver.instance_id.as_deref();
            self.validate_member(&member_id, instance_id)?;
        }
        tracing::debug!(group = &*self.id, member = &*member_id, reason = leaver.reason, "a member left");
        turn.forget_member(&self.id, &member_id);
        self.remove_member(&member_id, turn);
        Ok(())
    }
}
