/** `remuster rtt A B`: the round trip time between two members, estimated from network coordinates and measured. */
import { exitOk } from '../command/exit.ts';
import { getJson } from '../command/http-client.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

type RoundTrip = {
  readonly from: string;
  readonly to: string;
  readonly estimatedMs: number | null;
  readonly measuredMs: number | null;
};

export async function rttCommand(flags: TargetFlags, format: OutputFormat, from: string, to: string): Promise<number> {
  const target = await resolveTarget(flags);
  const path = `/v1/rtt?from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}`;
  const { schemaVersion: _, ...result } = (await getJson(target, path)) as RoundTrip & { schemaVersion: number };
  const lines: [string, string][] = [
    ['FROM', result.from],
    ['TO', result.to],
    ['ESTIMATED', milliseconds(result.estimatedMs)],
    ['MEASURED', milliseconds(result.measuredMs)],
  ];
  printData(await renderObject(format, result, { name: `${result.from}-${result.to}`, lines }));
  return exitOk;
}

function milliseconds(value: number | null): string {
  return value === null ? 'not known yet' : `${value.toFixed(3)} ms`;
}
