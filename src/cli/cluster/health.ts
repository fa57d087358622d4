/**
 * `remuster health`: whether a node is live, started and ready. The exit code is 1 when it is not ready, for scripts.
 */
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
  const result = {
    addr: target.addr,
    live: live?.ok === true,
    started: started?.ok === true,
    ready: ready?.ok === true,
    checks,
  };
  const lines: [string, string][] = [
    ['ADDRESS', result.addr],
    ['LIVE', yesOrNo(result.live)],
    ['STARTED', yesOrNo(result.started)],
    ['READY', yesOrNo(result.ready)],
    ...checks.map((check): [string, string] => [`  ${check.name}`, `${yesOrNo(check.ok)} (${check.detail})`]),
  ];
  printData(await renderObject(format, result, { name: result.ready ? 'ready' : 'not-ready', lines }));
  return result.ready ? exitOk : exitFailed;
}

function yesOrNo(ok: boolean): string {
  return ok ? 'yes' : 'no';
}
