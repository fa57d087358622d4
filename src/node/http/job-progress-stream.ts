/** Streams the progress of a job as events across leader changes. A slow client gets fewer versions, each complete. */
import { serializeError, isRemusterError } from '../../base/errors.ts';
import type { SendServerSentEvent } from '../../base/http-routes.ts';
import type { Cancel, Clock } from '../../base/ports.ts';
import { type JobProgress, isTerminalStatus } from '../../jobs/job-types.ts';

export type JobProgressSource = {
  /** Returns the next version after `afterVersion`, or the current one after `waitMs`. */
  watch(args: { jobId: string; afterVersion: number; waitMs: number }, remainingMs: number): Promise<object>;
  readonly clock: Pick<Clock, 'schedule' | 'nowMs'>;
};

const waitMs = 10_000;
const replyMarginMs = 20_000;
const retryDelayMs = 250;
/** The stream ends after this time without a reply; the client may reconnect. */
const silentMsMax = 60_000;

/** Returns a function that stops the stream. */
export function streamJobProgress(
  source: JobProgressSource,
  from: { readonly jobId: string; readonly after: number },
  send: SendServerSentEvent,
  end: () => void,
): () => void {
  const { clock } = source;
  const { jobId } = from;
  let afterVersion = from.after;
  let lastReplyMs = clock.nowMs();
  let stopped = false;
  let cancelRetry: Cancel = () => {};

  const onProgress = (progress: JobProgress): void => {
    lastReplyMs = clock.nowMs();
    if (progress.version !== afterVersion || isTerminalStatus(progress.status)) {
      afterVersion = progress.version;
      if (!send({ id: String(progress.version), event: 'progress', data: progress })) return;
    }
    if (isTerminalStatus(progress.status)) end();
    else poll();
  };
  const onError = (error: unknown): void => {
    const isRetryable = isRemusterError(error) && error.row.retryable;
    if (isRetryable && clock.nowMs() - lastReplyMs < silentMsMax) {
      cancelRetry = clock.schedule(retryDelayMs, poll);
      return;
    }
    send({ event: 'error', data: { error: serializeError(error) } });
    end();
  };
  const poll = (): void => {
    source.watch({ jobId, afterVersion, waitMs }, waitMs + replyMarginMs).then(
      (reply) => (stopped ? undefined : onProgress(reply as JobProgress)),
      (error: unknown) => (stopped ? undefined : onError(error)),
    );
  };
  poll();
  return () => {
    stopped = true;
    cancelRetry();
  };
}
