/** The workflows that the bench submits, as a user would write them, each in a file of its own. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const itemsCount = 2_000_000;

const texts = {
  /** The effect of an item is its entry in the durable result of its unit. */
  items: `{ items: ${itemsCount}, cores: 2, results: false, each: () => undefined }`,
  /** The start time of the user code, by a clock that the submitter shares. */
  clock: `{ items: 1, each: () => performance.timeOrigin + performance.now() }`,
  /** Lasts longer than the bench. */
  endless: `{ items: 1, timeout: '10m', each: async (item, ctx) => await ctx.sleep(600_000) }`,
} as const;
export type BenchWorkflow = keyof typeof texts;

export function workflowFile(folder: string, name: BenchWorkflow): string {
  const file = join(folder, `${name}.ts`);
  writeFileSync(file, `import { workflow } from 'remuster';\nexport default workflow('${name}', ${texts[name]});\n`);
  return file;
}
