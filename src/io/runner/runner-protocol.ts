/** Frame kinds on the pipe between node and runner, and how a start is encoded. Kinds keep their numbers. */
import { RemusterError } from '../../base/errors.ts';

/**
 * To the runner: `forbidden` (JSON of NetworkDenyList) first and whenever it has changed, `start` once, then messages;
 * `denyNetwork` takes that right away. From the runner: messages, and `failed` with a reason.
 */
export const runnerFrameKind = { start: 1, message: 2, failed: 3, denyList: 4, denyNetwork: 5 } as const;

/** The file descriptor of the pipe in the child: after stdin, stdout and stderr. */
export const pipeFd = 3;

/** Of the pipe on which the parent shows that it is there: a byte now and then. */
export const keepAliveFd = 4;

export type RunnerStart = { readonly moduleUrl: string; readonly data: Uint8Array };

export function encodeRunnerStart({ moduleUrl, data }: RunnerStart): Uint8Array {
  const url = new TextEncoder().encode(moduleUrl);
  const packed = new Uint8Array(4 + url.length + data.length);
  new DataView(packed.buffer).setUint32(0, url.length);
  packed.set(url, 4);
  packed.set(data, 4 + url.length);
  return packed;
}

export function decodeRunnerStart(packed: Uint8Array): RunnerStart {
  if (packed.length < 4) throw new RemusterError('MALFORMED', 'a start frame is too short');
  const urlEnd = 4 + new DataView(packed.buffer, packed.byteOffset).getUint32(0);
  return { moduleUrl: new TextDecoder().decode(packed.subarray(4, urlEnd)), data: packed.slice(urlEnd) };
}
