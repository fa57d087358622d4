/** `remuster new module NAME`: starter module with its test. */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { exitOk } from '../command/exit.ts';
import { identifierOf, quoteSpecifier, writeNewFiles } from './new-file.ts';
import { printData, printNotice } from '../output/terminal.ts';

export function newModuleCommand(name: string, folder: string): number {
  if (!namePattern.test(name))
    throw new RemusterError('BAD_ARGUMENT', `${JSON.stringify(name)} cannot be the name of a module`);
  const files = { [`${name}.ts`]: moduleText(name), [`${name}.test.ts`]: testText(name) };
  const paths = writeNewFiles(folder, files);
  printData(paths.join('\n'));
  printNotice(`try it:   node --test ${paths[1]}`);
  printNotice(
    `run it:   remuster module deploy ${paths[0]} && remuster pool create ${name} --module ${name} --containers 8`,
  );
  printNotice(`call it:  remuster call ${name} add '["apples", 3]' --hash apples`);
  return exitOk;
}

function moduleText(name: string): string {
  return `/**
 * A stateful service. A pool of it has many containers, each with a part of the keys: one number per key here.
 * One writing call at a time runs in a container. What it wrote is kept when it returns, and not at all when it throws.
 */
import { type Context, module } from ${quoteSpecifier('remuster')};

export const ${identifierOf(name, 'module')} = module('${name}', {
  methods: {
    /** Writes: durable, and in all copies, before the caller gets the answer. */
    add: (ctx: Context, key: string, by: number): number => {
      if (!Number.isFinite(by)) throw new TypeError('add takes a number');
      const sum = (ctx.state.get<number>(key) ?? 0) + by;
      ctx.state.set(key, sum);
      return sum;
    },

    /** Only reads, so such calls may overlap. */
    read: { readonly: true, run: (ctx: Context, key: string): number => ctx.state.get<number>(key) ?? 0 },

    /** Asked of all containers at once (\`broadcast\`), and made one result. */
    total: {
      readonly: true,
      run: (ctx: Context): number => {
        let sum = 0;
        for (const [, value] of ctx.state.entries<number>({ limit: Infinity })) sum += value;
        return sum;
      },
      aggregate: (parts: number[]): number => parts.reduce((sum, part) => sum + part, 0),
    },
  },

  // Also possible: init, restart, recover, migrate, expand, workRemaining, scheduleRecover, route.
});
`;
}

function testText(name: string): string {
  const definition = identifierOf(name, 'module');
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { simulate } from ${quoteSpecifier('remuster/testing')};
import { ${definition} } from ${quoteSpecifier(`./${name}.ts`)};

test('${name} counts, and what it has counted outlives a node', async () => {
  const cluster = await simulate({ nodes: 3, modules: [${definition}] });
  await cluster.createPool('things', ${definition}, { containers: 4 });
  const things = cluster.pool(${definition}, 'things');
  await things.hash('apples').add('apples', 3);
  assert.equal(await things.hash('apples').add('apples', 2), 5);

  const owner = [0, 1, 2, 3].map((container) => cluster.ownerOf('things', container)).find((node) => node !== undefined);
  cluster.kill(owner ?? 'n1');
  assert.equal(await things.hash('apples').read('apples'), 5);
  assert.equal(await things.broadcast().total(), 5);
});
`;
}
