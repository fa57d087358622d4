/** `remuster health`: is a node ready; exit code 1 when it is not, for scripts. */
import { exitFailed, exitOk } from '../command/exit.ts';
import { request } from '../command/http-client.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

type Check = { readonly name: string; readonly ok: boolean; readonly detail: string };
type Probe = { readonly ok?: boolean; readonly checks?: readonly Check[] };

export async function healthCommand(flags: TargetFlags, format: OutputFormat): Promise<number> {
  const target = await resolveTarget(flags);
  const paths = ['/livez', '/startupz', '/readyz'] as const;
  const [live, started, ready] = await Promise.all(
    paths.map(async (path) => ((await request(target, 'GET', `${path}?verbose`)).body ?? {}) as Probe),
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
  printData(await renderObject(format, thing, { name: thing.ready ? 'ready' : 'not-ready', lines }));
  return thing.ready ? exitOk : exitFailed;
}

function word(ok: boolean): string {
  return ok ? 'yes' : 'no';
}
