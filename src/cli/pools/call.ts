/** `remuster call POOL METHOD [JSON]`: one call of a pool method; prints its result as JSON. */
import { RemusterError } from '../../base/errors.ts';
import { parseOptionDuration } from '../../node/options/option-types.ts';
import { exitOk } from '../command/exit.ts';
import { sendJson } from '../command/http-client.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

export type CallFlags = TargetFlags & {
  readonly hash?: string;
  readonly id?: number;
  readonly range?: string;
  readonly broadcast?: true;
  readonly node?: string;
  readonly local?: true;
  readonly dynamic?: true;
  readonly timeout: string;
  readonly callId?: string;
};

/** Added to the timeout of the call for the HTTP request itself. */
const requestMarginMs = 5_000;
const timeoutMsMax = 110_000;

export async function callCommand(
  pool: string,
  method: string,
  json: string | undefined,
  flags: CallFlags,
): Promise<number> {
  const timeoutMs = timeoutOf(flags.timeout);
  const { callId } = flags;
  const body = { pool, method, args: parseArguments(json), route: routeOfFlags(flags), callId, timeoutMs };
  const reply = await sendJson(await resolveTarget(flags), 'POST', '/v1/call', body, timeoutMs + requestMarginMs);
  printData(JSON.stringify((reply as { readonly result?: unknown }).result ?? null));
  return exitOk;
}

/** A JSON array is the list of arguments; any other value is the only argument. */
export function parseArguments(json: string | undefined): readonly unknown[] {
  if (json === undefined) return [];
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new RemusterError(
      'BAD_ARGUMENT',
      `the arguments are not JSON: ${json.slice(0, 80)}; write a string as '"text"'`,
    );
  }
  return Array.isArray(value) ? (value as readonly unknown[]) : [value];
}

export function routeOfFlags(flags: Omit<CallFlags, 'timeout'>): object {
  const { hash, id, range, broadcast, node, local, dynamic } = flags;
  const given = Object.entries({ hash, id, range, broadcast, node, local, dynamic }).filter(
    ([, value]) => value !== undefined,
  );
  const [route, ...more] = given;
  if (route === undefined || more.length > 0) {
    const flags = '--hash, --id, --range, --broadcast, --node, --local, --dynamic';
    throw new RemusterError('BAD_ARGUMENT', `choose the containers with exactly one of ${flags}`);
  }
  return range === undefined ? Object.fromEntries([route]) : { range: rangeOf(range) };
}

function rangeOf(text: string): readonly number[] {
  const [, first, count] = /^(\d{1,15}):(\d{1,15})$/.exec(text) ?? [];
  if (first !== undefined) return [Number(first), Number(count)];
  throw new RemusterError(
    'BAD_ARGUMENT',
    `--range takes FIRST:COUNT, such as 0:8 for the containers 0 to 7, not ${JSON.stringify(text)}`,
  );
}

function timeoutOf(text: string): number {
  const timeoutMs = parseOptionDuration(text);
  if (timeoutMs !== undefined && timeoutMs > 0 && timeoutMs <= timeoutMsMax) return timeoutMs;
  throw new RemusterError(
    'BAD_ARGUMENT',
    `--timeout takes a duration such as 500ms or 10s, at most ${timeoutMsMax} ms, not ${JSON.stringify(text)}`,
  );
}
