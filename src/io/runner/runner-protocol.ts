/** Frame kinds on the pipe between node and runner, and the encoding of a start frame. Kinds keep their numbers. */
import { RemusterError } from '../../base/errors.ts';

/**
 * To the runner: `denyList` (JSON of NetworkDenyList) first and after each change, `start` once, then `message`;
 * `denyNetwork` drops the network permission. From the runner: `message`, and `failed` with a reason.
 */
export const runnerFrameKind = { start: 1, message: 2, failed: 3, denyList: 4, denyNetwork: 5 } as const;

/** File descriptor of the pipe in the child, after stdin, stdout and stderr. */
export const pipeFd = 3;

/** File descriptor of the pipe on which the parent writes keep-alive bytes. */
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
  if (packed.length < 4) throw new RemusterError('MALFORMED', `a start frame has only ${packed.length} bytes`);
  const urlEnd = 4 + new DataView(packed.buffer, packed.byteOffset).getUint32(0);
  return { moduleUrl: new TextDecoder().decode(packed.subarray(4, urlEnd)), data: packed.slice(urlEnd) };
}
