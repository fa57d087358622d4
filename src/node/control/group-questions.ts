/** Asking another node what it knows of the group of managers, and reading the answer. Keeps nothing. */
import { type Done, failure, isRemusterError, success } from '../../base/errors.ts';
import type { Address, Streams } from '../../base/ports.ts';
import { type Message, decodeMessage, encodeMessage } from '../../messages/catalogue.ts';

export type ToldGroup = Extract<Message, { readonly kind: 'toldGroup' }>;

export type GroupQuestion = (to: Address, done: Done<ToldGroup>) => void;

export function groupQuestions(streams: Pick<Streams, 'request'>, group: string, timeoutMs: number): GroupQuestion {
  return (to, done) => {
    streams.request(to, encodeMessage({ kind: 'askGroup', group }), timeoutMs, (outcome) => {
      if (!outcome.ok) return done(outcome);
      const told = readTold(outcome.value);
      done(told === undefined ? failure('MALFORMED', 'that is no answer to the question') : success(told));
    });
  };
}

function readTold(body: Uint8Array): ToldGroup | undefined {
  try {
    const message = decodeMessage(body);
    return message.kind === 'toldGroup' ? message : undefined;
  } catch (error) {
    if (isRemusterError(error)) return undefined;
    throw error;
  }
}
