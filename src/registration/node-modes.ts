/**
 * The state machine of node modes and its only transitions. A restarted active node is `joining` until it is ready. A
 * drained node stays drained until an operator activates it. Unknown never becomes active by itself.
 *
 *   joining ----> active ----> draining ----> drained
 *      |            ^  \                       ^  |
 *      |            |   \_____ late return ____|  |
 *      |            +------ admin_activate -------+
 *      +----- late return -----> drained
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

/** The mode before a transition: `none` without a state record, `unknown` if the record is malformed. */
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
const lateReturn: Row = {
  none: 'drained',
  unknown: 'drained',
  joining: 'drained',
  active: 'drained',
  draining: 'drained',
  drained: 'drained',
};
const noTransition: Row = {
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
  stale_restart: lateReturn,
  registration_expired: lateReturn,
  admin_drain: { ...noTransition, active: 'draining', drained: 'drained' },
  drain_complete: { ...noTransition, draining: 'drained' },
  admin_activate: { ...noTransition, unknown: 'active', drained: 'active' },
};

/** Undefined: there is no such transition. */
export function nextMode(reason: StateReason, from: PreviousMode): NodeMode | undefined {
  return table[reason][from];
}

/** In these modes a node serves the containers that it has; an active node also gets new ones. */
export function canServeIn(mode: NodeMode): boolean {
  return mode === 'active' || mode === 'draining';
}

/** The node was drained by a late return, not by an operator. */
export function isLateReturn(reason: StateReason | null): boolean {
  return reason === 'stale_restart' || reason === 'registration_expired';
}

/** The command that activates a drained node, for hints and messages. */
export function activateCommand(name: string): string {
  return `remuster node activate ${name}`;
}
