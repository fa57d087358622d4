/** Streams a job's progress as events across leader changes. A slow client gets fewer versions, each complete. */
import { serializeError, isRemusterError } from '../../base/errors.ts';
import type { SendServerSentEvent } from '../../base/http-routes.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { type JobProgress, isTerminalStatus } from '../../jobs/job-types.ts';

export type JobProgressSource = {
  /** The next version after that one, or the present one when the waiting is over. */
  watch(words: { jobId: string; afterVersion: number; waitMs: number }, remainingMs: number): Promise<object>;
  readonly clock: Pick<Clock, 'schedule' | 'nowMs'>;
};

const waitMs = 10_000;
const answerMs = 20_000;
const pauseMs = 250;
/** Without a single answer for so long the stream ends; the client may come back. */
const silentMsMax = 60_000;

/** The result stops it. */
export function streamJobProgress(
  source: JobProgressSource,
  from: { readonly jobId: string; readonly after: number },
  send: SendServerSentEvent,
  end: () => void,
): () => void {
  const { clock } = source;
  const { jobId } = from;
  let afterVersion = from.after;
  let heardMs = clock.nowMs();
  let stopped = false;
  let cancel: Cancel = () => {};

  const told = (progress: JobProgress): void => {
    heardMs = clock.nowMs();
    if (progress.version !== afterVersion || isTerminalStatus(progress.status)) {
      afterVersion = progress.version;
      if (!send({ id: String(progress.version), event: 'progress', data: progress })) return;
    }
    if (isTerminalStatus(progress.status)) end();
    else ask();
  };
  const failed = (error: unknown): void => {
    const mayPass = isRemusterError(error) && error.row.retryable;
    if (mayPass && clock.nowMs() - heardMs < silentMsMax) {
      cancel = clock.schedule(pauseMs, ask);
      return;
    }
    send({ event: 'error', data: { error: serializeError(error) } });
    end();
  };
  const ask = (): void => {
    source.watch({ jobId, afterVersion, waitMs }, waitMs + answerMs).then(
      (answer) => (stopped ? undefined : told(answer as JobProgress)),
      (error: unknown) => (stopped ? undefined : failed(error)),
    );
  };
  ask();
  return () => {
    stopped = true;
    cancel();
  };
}
