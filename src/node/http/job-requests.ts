/**
 * Sends a job command until it succeeds or its time is over. What may have been executed is retried only if it is
 * idempotent.
 */
import { type Done, type ErrorCode, RemusterError, toPromise, withPossibleEffect } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { JobVerb } from '../../messages/jobs.ts';
import type { JobGateway } from '../jobs/job-gateway.ts';

export type SendJobCommand = (verb: JobVerb, words: object, remainingMs?: number) => Promise<object>;

/** On whose behalf: everybody who has the token of the operators is one. */
const submitter = 'http';
/** Long enough for a change of leader; below what the command line waits for. */
export const jobCommandTimeoutMs = 20_000;
const retryDelayMs = 200;
/** A leader that has fallen silent is not waited for until the end. */
const attemptMs = 8_000;
const passing: readonly ErrorCode[] = [
  'CANCELLED',
  'DEADLINE',
  'NETWORK_TIMEOUT',
  'NOT_LEADER',
  'NO_QUORUM',
  'UNREACHABLE',
];

/** `desk` is undefined on a node that has nothing to do with jobs. */
export function retryingJobCommands(
  desk: () => JobGateway | undefined,
  clock: Pick<Clock, 'nowMs' | 'schedule'>,
): SendJobCommand {
  return async (verb, words, remainingMs = jobCommandTimeoutMs) => {
    const endsMs = clock.nowMs() + remainingMs;
    const text = JSON.stringify(words);
    const isRepeatable = verb !== 'submit' || 'idempotencyKey' in words;
    let isUncertain = false;
    const mayRepeat = ({ code, stateChanged }: RemusterError): boolean =>
      passing.includes(code) && (isRepeatable || stateChanged === 'no');
    const longestMs = isRepeatable ? attemptMs + waitMsIn(words) : remainingMs;
    const answer = await toPromise<string>((done) => {
      // Of all attempts: one that may have been carried out leaves a doubt.
      const end: Done<string> = (outcome) => {
        if (outcome.ok || !isUncertain) done(outcome);
        else done({ ok: false, error: withPossibleEffect(outcome.error) });
      };
      const ask = (): void => {
        requireJobGateway(desk).send(verb, text, submitter, Math.min(longestMs, endsMs - clock.nowMs()), (outcome) => {
          if (outcome.ok) return done(outcome);
          const { error } = outcome;
          isUncertain ||= error.stateChanged !== 'no';
          if (mayRepeat(error) && clock.nowMs() + retryDelayMs < endsMs)
            clock.schedule(retryDelayMs, () => attempt(ask, end));
          else end(outcome);
        });
      };
      ask();
    });
    return JSON.parse(answer) as object;
  };
}

export function requireJobGateway(desk: () => JobGateway | undefined): JobGateway {
  const found = desk();
  if (found !== undefined) return found;
  throw new RemusterError('PRECONDITION', 'this node takes no part in jobs', 'no');
}

/** The desk may be gone by then. */
function attempt(ask: () => void, done: Done<string>): void {
  try {
    ask();
  } catch (error) {
    done({ ok: false, error: error instanceof RemusterError ? error : new RemusterError('INTERNAL') });
  }
}

function waitMsIn(words: object): number {
  return 'waitMs' in words && typeof words.waitMs === 'number' ? words.waitMs : 0;
}
