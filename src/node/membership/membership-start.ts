/** How a node starts membership: in its own thread (production) or in the calling thread (simulator, tests). */
import type { Clock, Identity, Streams } from '../../base/ports.ts';
import type { MembershipHandle, MembershipListener } from '../../membership/membership-handle.ts';

/** Starts membership in whichever thread it runs. The clock stops with the core. */
export type MembershipStart = (
  context: { readonly clock: Clock; readonly streams: Streams; readonly identity: Identity },
  reports: MembershipListener,
) => MembershipHandle;
