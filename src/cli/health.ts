/**
 * `remuster health`: is this node well. It exits with 1 when the node is not ready, so that it can stand in a script as
 * it is.
 */
import { exitFailed, exitOk } from './failure.ts';
import { ask } from './http-client.ts';
import { type Format, renderThing } from './output.ts';
import { findTarget, type TargetFlags } from './target.ts';
import { print } from './terminal.ts';

type Check = { readonly name: string; readonly ok: boolean; readonly detail: string };
type Probe = { readonly ok?: boolean; readonly checks?: readonly Check[] };

export async function health(flags: TargetFlags, format: Format): Promise<number> {
  const target = await findTarget(flags);
  const paths = ['/livez', '/startupz', '/readyz'] as const;
  const [live, started, ready] = await Promise.all(
    paths.map(async (path) => ((await ask(target, 'GET', `${path}?verbose`)).body ?? {}) as Probe),
  );
  const checks = ready?.checks ?? [];
  const thing = {
    addr: target.addr,
    live: live?.ok === true,
    started: started?.ok === true,
    ready: ready?.ok === true,
    checks,
  };
  const lines: [string, string][] = [
    ['ADDRESS', thing.addr],
    ['LIVE', word(thing.live)],
    ['STARTED', word(thing.started)],
    ['READY', word(thing.ready)],
    ...checks.map((check): [string, string] => [`  ${check.name}`, `${word(check.ok)} (${check.detail})`]),
  ];
  print(await renderThing(format, thing, { name: thing.ready ? 'ready' : 'not-ready', lines }));
  return thing.ready ? exitOk : exitFailed;
}

function word(ok: boolean): string {
  return ok ? 'yes' : 'no';
}
