/**
 * What an application holds of a cluster: a thin session over streams to one node, in the role `client`. Every call
 * has a deadline and ends in a result or a coded error. Pure: it is handed its streams and closes them at the end.
 */
import { type Outcome, RemusterError, failure, isRemusterError, promised, success } from '../base/errors.ts';
import type { Address, Streams } from '../base/ports.ts';
import { type Message, decodeMessage, encodeMessage } from '../messages/catalogue.ts';

type MemberView = (Message & { kind: 'memberList' })['members'][number];

/** A member as the asked node sees it. */
export type ClusterMember = MemberView['entry'] &
  Pick<MemberView, 'state' | 'incarnation' | 'health' | 'stuck' | 'lagMs' | 'silentMs'> & {
    readonly registration: string | null;
    readonly loadLevel: string | null;
  };

export type ClusterSession = {
  members(): Promise<readonly ClusterMember[]>;
  /** Sends bytes there and back: measures a connection. */
  echo(payload: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
};

export type SessionOptions = {
  readonly streams: Streams;
  readonly to: Address;
  readonly requestTimeoutMs: number;
};

type Answer<K extends Message['kind']> = Extract<Message, { readonly kind: K }>;

export function openSession({ streams, to, requestTimeoutMs }: SessionOptions): ClusterSession {
  let closing: Promise<void> | undefined;

  async function ask<K extends Message['kind']>(question: Message, answerKind: K): Promise<Answer<K>> {
    if (closing !== undefined) throw new RemusterError('CANCELLED', 'the session is closed');
    const body = encodeMessage(question);
    const answer = await promised<Message>((done) => {
      streams.request(to, body, requestTimeoutMs, (outcome) => done(outcome.ok ? read(outcome.value) : outcome));
    });
    if (answer.kind !== answerKind) throw new RemusterError('MALFORMED', `${answer.kind} answers ${question.kind}`);
    return answer as Answer<K>;
  }

  return {
    members: async () => (await ask({ kind: 'listMembers' }, 'memberList')).members.map(flat),
    echo: async (payload) => (await ask({ kind: 'echo', payload }, 'echoed')).payload,
    close: () => (closing ??= promised<void>((done) => streams.close(done))),
  };
}

/** What this version does not know yet is null. */
function flat({ entry, state, incarnation, health, stuck, lagMs, silentMs }: MemberView): ClusterMember {
  return { ...entry, state, incarnation, health, stuck, lagMs, silentMs, registration: null, loadLevel: null };
}

/** At once, because the bytes are only valid while they are handed over. */
function read(bytes: Uint8Array): Outcome<Message> {
  try {
    return success(decodeMessage(bytes));
  } catch (error) {
    return isRemusterError(error) ? { ok: false, error } : failure('INTERNAL');
  }
}
