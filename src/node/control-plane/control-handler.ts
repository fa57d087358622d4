/** Passes registry, group, lease and command messages to the part that handles them. Keeps no state. */
import { type Done, failure, success } from '../../base/errors.ts';
import type { Identity } from '../../base/ports.ts';
import { type Message, encodeMessage } from '../../messages/catalogue.ts';
import { type ConsensusMessage, consensusMessages } from '../../messages/consensus.ts';
import { type RegistryMessage, registryMessages } from '../../messages/registry.ts';
import type { ControlPlane } from './control-plane.ts';

export type ControlRequest = {
  readonly from: Identity;
  readonly message: Message;
  /** The encoded message; valid only during the call. */
  readonly body: Uint8Array;
  readonly remainingMs: number;
};

const consensusKinds: ReadonlySet<string> = new Set(consensusMessages.map(({ kind }) => kind));
const registryKinds: ReadonlySet<string> = new Set(registryMessages.map(({ kind }) => kind));

export function isConsensusMessage(message: Message): message is ConsensusMessage {
  return consensusKinds.has(message.kind);
}

function isRegistryMessage(message: Message): message is RegistryMessage {
  return registryKinds.has(message.kind);
}

/** False if the message is not for the control plane. */
export function handleControlRequest(
  control: ControlPlane,
  { from, message, body, remainingMs }: ControlRequest,
  reply: Done<Uint8Array>,
): boolean {
  const { manager } = control;
  if (isRegistryMessage(message)) {
    if (manager === undefined) reply(failure('NOT_LEADER', 'this node is not a manager', 'no'));
    else manager.server.handle(from, message, body, remainingMs, reply);
    return true;
  }
  if (message.kind === 'describeGroup') {
    reply(success(encodeMessage(control.groupInfo.infoFor(from, message.group))));
    return true;
  }
  if (message.kind === 'renewServingLease') {
    const granted = control.grantServing(from.id, from.generation, message);
    if (granted.ok) reply(success(encodeMessage({ kind: 'servingLeaseGranted', ...granted.value })));
    else if (granted.error.code !== 'NOT_LEADER' || manager === undefined) reply(granted);
    else reply(success(encodeMessage({ kind: 'servingLeaseRedirect', leaderHint: manager.leaderHint() })));
    return true;
  }
  if (message.kind !== 'adminCommand') return false;
  control.commands.handle(message, remainingMs, (outcome) => {
    reply(outcome.ok ? success(encodeMessage({ kind: 'adminCommandReply', answer: outcome.value })) : outcome);
  });
  return true;
}
