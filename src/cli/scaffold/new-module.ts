/** `remuster new module NAME`: writes a starter module and its test. */
import { RemusterError } from '../../base/errors.ts';
import { namePattern } from '../../base/ids.ts';
import { exitOk } from '../command/exit.ts';
import { identifierOf, quoteSpecifier, sourceExtension, writeNewFiles } from './new-file.ts';
import { printData, printNotice } from '../output/terminal.ts';

export function newModuleCommand(name: string, folder: string): number {
  if (!namePattern.test(name))
    throw new RemusterError(
      'BAD_ARGUMENT',
      `${JSON.stringify(name)} is not a valid module name: use lower-case letters, digits, '.', '-' and '_'`,
    );
  const extension = sourceExtension(folder);
  const files = {
    [`${name}${extension}`]: moduleText(name),
    [`${name}.test${extension}`]: testText(name, extension),
  };
  const paths = writeNewFiles(folder, files);
  printData(paths.join('\n'));
  printNotice(`test it:   node --test ${paths[1]}`);
  printNotice(
    `deploy it: remuster module deploy ${paths[0]} && remuster pool create ${name} --module ${name} --containers 8`,
  );
  printNotice(`call it:   remuster call ${name} add '["apples", 3]' --hash apples`);
  return exitOk;
}

function moduleText(name: string): string {
  return `/**
 * A stateful service: one number per key. A pool of this module has many containers, each with a part of the keys.
 * A container runs one writing call at a time. Its writes are committed when it returns, and rolled back when it
 * throws.
 */
import { type Context, module } from ${quoteSpecifier('remuster')};

export const ${identifierOf(name, 'module')} = module('${name}', {
  methods: {
    /** A writing method: the caller gets the result when the write is durable on all in-sync copies. */
    add: (ctx: Context, key: string, by: number): number => {
      if (!Number.isFinite(by)) throw new TypeError('add takes a number');
      const sum = (ctx.state.get<number>(key) ?? 0) + by;
      ctx.state.set(key, sum);
      return sum;
    },

    /** A readonly method: such calls may run concurrently. */
    read: { readonly: true, run: (ctx: Context, key: string): number => ctx.state.get<number>(key) ?? 0 },

    /** Called on all containers (\`broadcast\`); \`aggregate\` combines their results. */
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

  // Optional hooks: init, restart, recover, migrate, expand, workRemaining, scheduleRecover, route.
});
`;
}

function testText(name: string, extension: string): string {
  const definition = identifierOf(name, 'module');
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { simulate } from ${quoteSpecifier('remuster/testing')};
import { ${definition} } from ${quoteSpecifier(`./${name}${extension}`)};

test('${name} keeps its counts when a node is lost', async () => {
  const cluster = await simulate({ nodes: 3, modules: [${definition}] });
  await cluster.createPool('things', ${definition}, { containers: 4 });
  const things = cluster.pool(${definition}, 'things');
  await things.hash('apples').add('apples', 3);
  assert.equal(await things.hash('apples').add('apples', 2), 5);

  const owners = [0, 1, 2, 3].map((container) => cluster.ownerOf('things', container));
  const owner = owners.find((node) => node !== undefined);
  cluster.kill(owner ?? 'n1');
  assert.equal(await things.hash('apples').read('apples'), 5);
  assert.equal(await things.broadcast().total(), 5);
});
`;
}
