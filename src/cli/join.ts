/** `remuster join ADDRESSES`: a node that already runs is told of others, for clusters that were started apart. */
import { exitOk } from './failure.ts';
import { postJson } from './http-client.ts';
import { type Format, renderThing } from './output.ts';
import { findTarget, type TargetFlags } from './target.ts';
import { print } from './terminal.ts';

export async function joinOthers(flags: TargetFlags, format: Format, addresses: string): Promise<number> {
  const target = await findTarget(flags);
  const { schemaVersion: _, ...thing } = (await postJson(target, '/v1/join', { addresses })) as {
    readonly schemaVersion: number;
    readonly node: string;
    readonly asked: readonly string[];
  };
  const lines: [string, string][] = [
    ['NODE', thing.node],
    ['ASKS', thing.asked.join(', ')],
  ];
  print(await renderThing(format, thing, { name: thing.node, lines }));
  return exitOk;
}
