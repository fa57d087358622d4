/**
 * The state machine of node modes: joining, active, draining, drained, and the only transitions. Unknown never becomes
 * active by itself.
 *
 * What a node may do for the cluster, and the only ways from one mode to another:
 *
 *   joining ----> active ----> draining ----> drained
 *      |            ^  \                       ^  |
 *      |            |   \_ returned too late __|  |
 *      |            +------ admin_activate -------+
 *      +-- returned too late --> drained
 *
 * A restart leads an active node through `joining`: it is here, and not ready yet. Drained stays drained until somebody
 * activates the node, whatever happens meanwhile. What is unknown never becomes active by itself.
 */

export const nodeModes = ['joining', 'active', 'draining', 'drained'] as const;
export type NodeMode = (typeof nodeModes)[number];

export const stateReasons = [
  'boot',
  'join',
  'fast_restart',
  'full_cluster_restart',
  'stale_restart',
  'registration_expired',
  'admin_drain',
  'drain_complete',
  'admin_activate',
] as const;
export type StateReason = (typeof stateReasons)[number];

/** Where a node comes from: `none` has no record of its state, `unknown` has one that cannot be read. */
export type PreviousMode = NodeMode | 'none' | 'unknown';

type Row = Readonly<Record<PreviousMode, NodeMode | undefined>>;

const refused = undefined;
const arrival: Row = {
  none: 'joining',
  unknown: refused,
  joining: refused,
  active: refused,
  draining: refused,
  drained: refused,
};
const restart: Row = {
  none: 'drained',
  unknown: 'drained',
  joining: 'joining',
  active: 'joining',
  draining: 'draining',
  drained: 'drained',
};
const tooLate: Row = {
  none: 'drained',
  unknown: 'drained',
  joining: 'drained',
  active: 'drained',
  draining: 'drained',
  drained: 'drained',
};
const nowhere: Row = {
  none: refused,
  unknown: refused,
  joining: refused,
  active: refused,
  draining: refused,
  drained: refused,
};

const table: Readonly<Record<StateReason, Row>> = {
  boot: arrival,
  join: arrival,
  fast_restart: restart,
  full_cluster_restart: restart,
  stale_restart: tooLate,
  registration_expired: tooLate,
  admin_drain: { ...nowhere, active: 'draining', drained: 'drained' },
  drain_complete: { ...nowhere, draining: 'drained' },
  admin_activate: { ...nowhere, unknown: 'active', drained: 'active' },
};

/** Undefined: there is no such way. */
export function nextMode(reason: StateReason, from: PreviousMode): NodeMode | undefined {
  return table[reason][from];
}

/** In these modes a node works on the containers it has; in `active` it also gets others. */
export function canServeIn(mode: NodeMode): boolean {
  return mode === 'active' || mode === 'draining';
}

/** The node was drained because it came too late, not because somebody wanted it. */
export function isLateReturn(reason: StateReason | null): boolean {
  return reason === 'stale_restart' || reason === 'registration_expired';
}

/** The command that gives a drained node work again, as every place that finds one names it. */
export function activateCommand(name: string): string {
  return `remuster node activate ${name}`;
}
