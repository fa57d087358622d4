/**
 * What a node does when another node or a client asks something of it: reads the message, refuses what the sender's
 * role may not say, and gives it to the part that answers. It keeps no state.
 */
import { type Done, failure, isRemusterError, success } from '../base/errors.ts';
import type { ByteStreamEvents, Identity, Service } from '../base/ports.ts';
import type { MemberView } from '../membership/member.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';
import { rejectionReason } from '../messages/rejection.ts';
import { refusal } from '../messages/role-matrix.ts';

export type ServiceParts = {
  introduction(from: Identity, message: Message & { kind: 'introduce' }, reply: Done<Uint8Array>): void;
  told(from: Identity, message: Message): void;
  members(): readonly MemberView[];
  /** True from the moment this node has begun to leave. */
  stopping(): boolean;
  count(name: string): void;
};

export function serviceOf(parts: ServiceParts): Service {
  return {
    request: (from, body, _remainingMs, reply) => {
      if (parts.stopping()) return reply(failure('DRAINED'));
      const message = readAllowed(parts, 'stream', from, body);
      if (message === undefined)
        return reply(failure('FORBIDDEN', 'the message cannot be read or is not yours to send'));
      answer(parts, from, message, reply);
    },
    notified: (from, body) => {
      const message = parts.stopping() ? undefined : readAllowed(parts, 'stream', from, body);
      if (message !== undefined) parts.told(from, message);
    },
    opened: (_from, _opening, stream) => {
      parts.count('rejected.unexpected');
      stream.abort('this node opens no streams');
      return ignored;
    },
  };
}

export function datagramHandler(parts: ServiceParts): (from: Identity, body: Uint8Array) => void {
  return (from, body) => {
    const message = parts.stopping() ? undefined : readAllowed(parts, 'datagram', from, body);
    if (message !== undefined) parts.told(from, message);
  };
}

const ignored: ByteStreamEvents = { chunk: () => {}, writable: () => {}, ended: () => {} };

function answer(parts: ServiceParts, from: Identity, message: Message, reply: Done<Uint8Array>): void {
  switch (message.kind) {
    case 'introduce':
      return parts.introduction(from, message, reply);
    case 'listMembers':
      return reply(success(encodeMessage({ kind: 'memberList', members: parts.members().map(memberLine) })));
    case 'echo':
      return reply(success(encodeMessage({ kind: 'echoed', payload: message.payload })));
    case 'hello':
    case 'helloAck':
    case 'introduced':
    case 'goodbye':
    case 'memberList':
    case 'echoed':
      return reply(failure('UNKNOWN_METHOD', `${message.kind} is not a request`));
  }
}

/** Incarnation and health are not judged yet: everybody is in its first and well. */
function memberLine(view: MemberView): (Message & { kind: 'memberList' })['members'][number] {
  return { entry: view.entry, state: view.state, incarnation: 0, health: 0, silentMs: view.silentMs };
}

function readAllowed(
  parts: ServiceParts,
  carrier: 'datagram' | 'stream',
  from: Identity,
  body: Uint8Array,
): Message | undefined {
  const refused = refusal(carrier, from.roles, body);
  if (refused !== undefined) {
    parts.count(`rejected.${refused}`);
    return undefined;
  }
  try {
    return decodeMessage(body);
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    parts.count(`rejected.${rejectionReason(error) ?? error.code}`);
    return undefined;
  }
}
