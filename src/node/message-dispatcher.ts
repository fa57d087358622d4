/**
 * Decodes a message of another node or client, checks the role of the sender, and passes the message to the part that
 * handles it. Keeps no state.
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

export type DispatcherPorts = {
  /** Membership decodes its own messages. */
  membership(from: Identity, body: Uint8Array, reply: Done<Uint8Array>): void;
  members(): readonly MemberView[];
  readonly control: ControlPlane | undefined;
  readonly containers: ContainerService | undefined;
  readonly jobs: Pick<JobService, 'handle'> | undefined;
  managePool(action: 'create' | 'delete', spec: string, done: Done<string>): void;
  /** True once this node says goodbye. */
  refusesRequests(): boolean;
  /** True once this node takes no more calls of clients. Those of its own containers, and of other nodes, go on. */
  refusesCalls(): boolean;
  count(name: string): void;
};

export function messageDispatcher(ports: DispatcherPorts): StreamService {
  return {
    request: (from, body, remainingMs, reply) => {
      if (ports.refusesRequests()) return reply(stopping);
      const allowed = isAllowed(ports, from, body);
      if (allowed && isMembershipRequest(body)) return ports.membership(from, body, reply);
      const message = allowed ? decode(ports, body) : undefined;
      if (message === undefined)
        return reply(failure('FORBIDDEN', 'the message is malformed, or the role of its sender may not send it'));
      if (message.kind === 'routeCall' && ports.refusesCalls()) return reply(stopping);
      const { control, containers, jobs } = ports;
      // Calls first, because they are the most frequent messages.
      if (containers?.handle(from, message, remainingMs, reply) === true) return;
      if (jobs?.handle(from, message, remainingMs, reply) === true) return;
      if (control !== undefined && handleControlRequest(control, { from, message, body, remainingMs }, reply)) return;
      handleDiagnostics(ports, message, reply);
    },
    notify: (from, body) => {
      const message = decodeAllowed(ports, from, body);
      if (message === undefined) return;
      if (isConsensusMessage(message)) ports.control?.onConsensusMessage(from, message);
      else ports.count('rejected.unexpected');
    },
    open: (from, opening, stream) => {
      const message = decodeAllowed(ports, from, opening);
      if (message?.kind === 'openResultStream' && ports.containers !== undefined)
        return ports.containers.openResultStream(from, message, stream);
      ports.count('rejected.unexpected');
      stream.abort('this node does not accept such a stream');
      return ignored;
    },
  };
}

const stopping = failure('DRAINED', 'this node is stopping', 'no');
const ignored: ByteStreamEvents = { chunk: () => {}, writable: () => {}, ended: () => {} };

function handleDiagnostics(ports: DispatcherPorts, message: Message, reply: Done<Uint8Array>): void {
  const { kind } = message;
  if (kind === 'managePool') {
    return ports.managePool(message.action, message.spec, (outcome) => {
      reply(outcome.ok ? success(encodeMessage({ kind: 'managePoolReply', pool: outcome.value })) : outcome);
    });
  }
  if (kind === 'listMembers')
    return reply(success(encodeMessage({ kind: 'listMembersReply', members: ports.members().slice(0, 10_000) })));
  if (kind === 'echo') return reply(success(encodeMessage({ kind: 'echoReply', payload: message.payload })));
  reply(failure('UNKNOWN_METHOD', `${kind} is not a request`));
}

function isAllowed(ports: DispatcherPorts, from: Identity, body: Uint8Array): boolean {
  const rejection = checkSender('stream', from.roles, body);
  if (rejection !== undefined) ports.count(`rejected.${rejection}`);
  return rejection === undefined;
}

function decodeAllowed(ports: DispatcherPorts, from: Identity, body: Uint8Array): Message | undefined {
  return isAllowed(ports, from, body) ? decode(ports, body) : undefined;
}

function decode(ports: DispatcherPorts, body: Uint8Array): Message | undefined {
  try {
    return decodeMessage(body);
  } catch (error) {
    if (!isRemusterError(error)) throw error;
    ports.count(`rejected.${rejectionReason(error) ?? error.code}`);
    return undefined;
  }
}
