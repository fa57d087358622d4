/**
 * Reads a message of another node or client, checks the sender's role, hands it to the part that handles it. Keeps no
 * state.
 */
import { type Done, failure, isRemusterError, success } from '../base/errors.ts';
import type { ByteStreamEvents, Identity, StreamService } from '../base/ports.ts';
import type { MemberView } from '../membership/state/member-view.ts';
import { isMembershipRequest } from '../membership/membership-host.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';
import { rejectionReason } from '../messages/codec/decode-error.ts';
import { checkSender } from '../messages/role-matrix.ts';
import type { ContainerService } from './containers/container-service.ts';
import type { ControlPlane } from './control-plane/control-plane.ts';
import { handleControlRequest, isConsensusMessage } from './control-plane/control-handler.ts';
import type { JobService } from './jobs/job-service.ts';

export type DispatcherParts = {
  /** What is for membership is read there, and nowhere else. */
  membership(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void;
  members(): readonly MemberView[];
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: Pick<JobService, 'handle'> | undefined;
  pools(act: 'create' | 'delete', words: string, done: Done<string>): void;
  /** True from the moment this node has begun to leave. */
  stopping(): boolean;
  count(name: string): void;
};

export function messageDispatcher(parts: DispatcherParts): StreamService {
  return {
    request: (from, body, remainingMs, reply) => {
      if (parts.stopping()) return reply(failure('DRAINED', undefined, 'no'));
      const allowed = isAllowed(parts, from, body);
      if (allowed && isMembershipRequest(body)) return parts.membership(from, body, reply);
      const message = allowed ? read(parts, body) : undefined;
      if (message === undefined)
        return reply(failure('FORBIDDEN', 'the message cannot be read or is not yours to send'));
      const { control, containers, jobs } = parts;
      // Calls first: there are more of them than of anything else.
      if (containers?.handle(from, message, remainingMs, reply) === true) return;
      if (jobs?.handle(from, message, remainingMs, reply) === true) return;
      if (control !== undefined && handleControlRequest(control, { from, message, body, remainingMs }, reply)) return;
      answer(parts, message, reply);
    },
    notify: (from, body) => {
      const message = readAllowed(parts, from, body);
      if (message === undefined) return;
      if (isConsensusMessage(message)) parts.control?.onConsensusMessage(from, message);
      else parts.count('rejected.unexpected');
    },
    open: (from, opening, stream) => {
      const message = readAllowed(parts, from, opening);
      if (message?.kind === 'openResultStream' && parts.containers !== undefined)
        return parts.containers.handleFlow(from, message, stream);
      parts.count('rejected.unexpected');
      stream.abort('this node opens no such stream');
      return ignored;
    },
  };
}

const ignored: ByteStreamEvents = { chunk: () => {}, writable: () => {}, ended: () => {} };

function answer(parts: DispatcherParts, message: Message, reply: Done<Uint8Array>): void {
  const { kind } = message;
  if (kind === 'managePool') {
    return parts.pools(message.action, message.spec, (outcome) => {
      reply(outcome.ok ? success(encodeMessage({ kind: 'managePoolReply', pool: outcome.value })) : outcome);
    });
  }
  if (kind === 'listMembers')
    return reply(success(encodeMessage({ kind: 'listMembersReply', members: parts.members().slice(0, 10_000) })));
  if (kind === 'echo') return reply(success(encodeMessage({ kind: 'echoReply', payload: message.payload })));
  reply(failure('UNKNOWN_METHOD', `${kind} is not a request`));
}

function isAllowed(parts: DispatcherParts, from: Identity, body: Uint8Array): boolean {
  const refused = checkSender('stream', from.roles, body);
  if (refused !== undefined) parts.count(`rejected.${refused}`);
  return refused === undefined;
}

function readAllowed(parts: DispatcherParts, from: Identity, body: Uint8Array): Message | undefined {
  return isAllowed(parts, from, body) ? read(parts, body) : undefined;
}

function read(parts: DispatcherParts, body: Uint8Array): Message | undefined {
  try {
    return decodeMessage(body);
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    parts.count(`rejected.${rejectionReason(error) ?? error.code}`);
    return undefined;
  }
}
