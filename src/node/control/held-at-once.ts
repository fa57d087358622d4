/**
 * Holds what is assigned to this node by doing nothing: there is nothing to load or to move yet. Every taking and
 * releasing ends well, after the call has returned.
 */
import { success } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { AssignmentHost } from '../../placement/assignments/assignments-held-host.ts';

export function heldAtOnce(clock: Clock): AssignmentHost {
  const end: AssignmentHost['take'] = (_assignment, done) => {
    clock.schedule(0, () => done(success(undefined)));
  };
  return { take: end, release: end };
}
