/**
 * Joins what a node holds to its registration: what is assigned is taken before the node serves, released when the
 * registration is in doubt, and given back when the node is drained. It hears of single assignments from the registry
 * itself, so the news of the registration about them are passed over.
 */
import { success } from '../../base/errors.ts';
import type { RegistrationHooks } from '../../registration/registration-host.ts';
import type { AssignmentsHeldHost } from './assignments-held-host.ts';

export function heldHooks(
  held: AssignmentsHeldHost,
): Pick<RegistrationHooks, 'reconcile' | 'changed' | 'servingChanged' | 'event'> {
  return {
    reconcile: (_, done) => held.resume((outcome) => done(outcome.ok ? success({ failed: [] }) : outcome)),
    changed: () => {},
    servingChanged: (serving, why) => {
      // A drained node is sure of its registration, and gives back what it has.
      if (!serving && why !== 'drained') held.suspend();
    },
    event: (event) => {
      if (event.type === 'node.state' && event.mode === 'drained') held.resume();
    },
  };
}
