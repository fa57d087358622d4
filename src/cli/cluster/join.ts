/** `remuster join ADDRESSES`: gives a running node more seeds to join. */
import { exitOk } from '../command/exit.ts';
import { postJson } from '../command/http-client.ts';
import { type OutputFormat, renderObject } from '../output/render.ts';
import { resolveTarget, type TargetFlags } from '../command/target.ts';
import { printData } from '../output/terminal.ts';

export async function joinCommand(flags: TargetFlags, format: OutputFormat, addresses: string): Promise<number> {
  const target = await resolveTarget(flags);
  const { schemaVersion: _, ...result } = (await postJson(target, '/v1/join', { addresses })) as {
    readonly schemaVersion: number;
    readonly node: string;
    readonly asked: readonly string[];
  };
  const lines: [string, string][] = [
    ['NODE', result.node],
    ['SEEDS', result.asked.join(', ')],
  ];
  printData(await renderObject(format, result, { name: result.node, lines }));
  return exitOk;
}
