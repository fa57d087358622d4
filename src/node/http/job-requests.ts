/**
 * Sends a job command until it succeeds or its deadline passes. A command that may have been executed is retried only
 * if it is idempotent.
 */
import { type Done, type ErrorCode, RemusterError, toPromise, withPossibleEffect } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { JobVerb } from '../../messages/jobs.ts';
import type { JobGateway } from '../jobs/job-gateway.ts';

export type SendJobCommand = (verb: JobVerb, args: object, remainingMs?: number) => Promise<object>;

/** The submitter of all commands over HTTP: the operators, who share one token. */
const submitter = 'http';
/** Long enough for a leader change; less than the timeout of the command line. */
export const jobCommandTimeoutMs = 20_000;
const retryDelayMs = 200;
/** Timeout of one attempt, so that a leader that does not reply is replaced in time. */
const attemptMs = 8_000;
const retryableCodes: readonly ErrorCode[] = [
  'CANCELLED',
  'DEADLINE',
  'NETWORK_TIMEOUT',
  'NOT_LEADER',
  'NO_QUORUM',
  'UNREACHABLE',
];

/** `gateway` is undefined on a node without jobs. */
export function retryingJobCommands(
  gateway: () => JobGateway | undefined,
  clock: Pick<Clock, 'nowMs' | 'schedule'>,
): SendJobCommand {
  return async (verb, args, remainingMs = jobCommandTimeoutMs) => {
    const endsMs = clock.nowMs() + remainingMs;
    const text = JSON.stringify(args);
    const isIdempotent = verb !== 'submit' || 'idempotencyKey' in args;
    let mayHaveExecuted = false;
    const canRetry = ({ code, stateChanged }: RemusterError): boolean =>
      retryableCodes.includes(code) && (isIdempotent || stateChanged === 'no');
    const attemptMsMax = isIdempotent ? attemptMs + waitMsIn(args) : remainingMs;
    const reply = await toPromise<string>((done) => {
      // An attempt that may have been executed makes the final error uncertain, too.
      const end: Done<string> = (outcome) => {
        if (outcome.ok || !mayHaveExecuted) done(outcome);
        else done({ ok: false, error: withPossibleEffect(outcome.error) });
      };
      const sendOnce = (): void => {
        requireJobGateway(gateway).send(
          verb,
          text,
          submitter,
          Math.min(attemptMsMax, endsMs - clock.nowMs()),
          (outcome) => {
            if (outcome.ok) return done(outcome);
            const { error } = outcome;
            mayHaveExecuted ||= error.stateChanged !== 'no';
            if (canRetry(error) && clock.nowMs() + retryDelayMs < endsMs)
              clock.schedule(retryDelayMs, () => attempt(sendOnce, end));
            else end(outcome);
          },
        );
      };
      sendOnce();
    });
    return JSON.parse(reply) as object;
  };
}

export function requireJobGateway(gateway: () => JobGateway | undefined): JobGateway {
  const found = gateway();
  if (found !== undefined) return found;
  throw new RemusterError('PRECONDITION', 'this node does not take part in jobs', 'no');
}

/** The gateway may be gone when a retry starts. */
function attempt(sendOnce: () => void, done: Done<string>): void {
  try {
    sendOnce();
  } catch (error) {
    done({ ok: false, error: error instanceof RemusterError ? error : new RemusterError('INTERNAL') });
  }
}

function waitMsIn(args: object): number {
  return 'waitMs' in args && typeof args.waitMs === 'number' ? args.waitMs : 0;
}
