/** How golden traces print membership messages. */
import { unreachable } from '../../../src/base/assert.ts';
import type { NodeId } from '../../../src/base/ids.ts';
import type { Address, Identity } from '../../../src/base/ports.ts';
import type { Claim, ClaimKind } from '../../../src/membership/state/claim.ts';
import { type TraceUpdateKind, type TraceUpdate, formatTraceMessage } from '../../../src/messages/trace-format.ts';
import type { MembershipMessage } from '../../../src/messages/membership.ts';

const port = 8_000;
const changes: Readonly<Record<ClaimKind, TraceUpdateKind>> = {
  join: 'join',
  alive: 'alive',
  suspect: 'suspect',
  dead: 'dead',
  left: 'leave',
};

export function addressOf(key: string): Address {
  return { host: `10.0.0.${key.slice(1)}`, port };
}

export function nodeKeyOf(address: Address): string {
  return `n${address.host.slice('10.0.0.'.length)}`;
}

/** The key of the node, with its generation if that is not the first. */
export function labelOf({ id, generation }: { readonly id: NodeId; readonly generation: number }): string {
  const key = `n${Number.parseInt(id.slice(0, 2), 16)}`;
  return generation === 1 ? key : `${key}/${generation}`;
}

/** The members that a message is about. */
export function mentionedNodes(message: MembershipMessage): readonly NodeId[] {
  const claimed = 'claims' in message ? message.claims.map(({ id }) => id) : [];
  return message.kind === 'pingRequest' ? [...claimed, message.target] : claimed;
}

export function formatMembershipMessage(
  message: MembershipMessage,
  from: Identity,
  to: Address,
  addressFor: (id: NodeId) => Address,
): string {
  const updateOf = ({ kind, id, incarnation }: Claim): TraceUpdate => ({
    change: changes[kind],
    address: addressFor(id),
    incarnation,
  });
  const updates = 'claims' in message ? message.claims.map(updateOf) : [];
  const { host } = from;
  const state = undefined;
  switch (message.kind) {
    case 'ping':
      return formatTraceMessage({ verb: 'probe', address: { host: to.host, port: to.port }, updates, state });
    case 'ack':
      return `${formatTraceMessage({ verb: 'ack', address: { host, port }, updates, state })}${message.stuck ? ' stuck' : ''}`;
    case 'pingRequest':
      return formatTraceMessage({ verb: 'ping-req', address: addressFor(message.target), updates, state });
    case 'gossip':
      return formatGossip(updates);
    case 'nack':
      return `nack${message.refused ? ', refused' : ''}`;
    case 'syncView':
    case 'syncViewReply':
      return `${message.kind}${formatUpdates(updates)}`;
    case 'pushPing':
      return `push ping of incarnation ${message.incarnation}${message.hearsYou ? ', acks arrive' : ''}${formatUpdates(updates)}`;
    case 'pushAck':
      return `push ack, ${message.verdict}${formatUpdates(updates)}`;
    case 'indirectAck':
    case 'streamPing':
    case 'streamPong':
    case 'leave':
      return message.kind;
    default:
      return unreachable(message);
  }
}

function formatUpdates(updates: readonly TraceUpdate[]): string {
  return updates.map((update) => ` ${formatGossip([update])}`).join('');
}

/** The first claim, with the others as its updates. */
function formatGossip([first, ...updates]: readonly TraceUpdate[]): string {
  if (first === undefined) return 'nothing';
  const { change, address, incarnation } = first;
  const state = undefined;
  if (change === 'join' || change === 'leave') return formatTraceMessage({ verb: change, address, updates, state });
  return formatTraceMessage({ verb: change, incarnation, address, updates, state });
}
