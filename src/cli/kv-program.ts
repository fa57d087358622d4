/** The commands of the key-value module. Like program.ts it only declares; the rest is imported when it is called. */
import type { Command } from 'commander';
import type { KvFlags } from './kv.ts';
import { destroyer, reader, wholeNumber } from './reading.ts';

type Conditional = { readonly ifVersion?: number };

export function addKv(program: Command, finish: (exitCode: number) => void): void {
  const kv = program.command('kv').description('keys and values in a pool of the module kv').helpGroup('Operate:');
  pooled(reader(kv, 'get <key>', 'the value of one key'))
    .option('--watch', 'print again when it changes')
    .action(async (key: string, flags: KvFlags & { watch?: true }) => {
      const { getValue } = await import('./kv.ts');
      finish(await getValue(key, flags));
    });
  pooled(reader(kv, 'list [prefix]', 'all keys that begin with these characters, in order'))
    .option('--from <key>', 'begin with this key')
    .option('--limit <count>', 'at most so many', wholeNumber('--limit', 1))
    .option('--watch', 'print again when something changes')
    .action(async (prefix: string | undefined, flags: KvFlags & { from?: string; limit?: number; watch?: true }) => {
      const { listValues } = await import('./kv.ts');
      finish(await listValues(prefix ?? '', flags));
    });
  conditional(pooled(reader(kv, 'put <key> <value>', 'write a value: JSON if it is JSON, else the text itself')))
    .helpGroup('Operate:')
    .option('--ttl <duration>', 'the key is gone after so long')
    .action(async (key: string, value: string, flags: KvFlags & Conditional & { ttl?: string }) => {
      const { putValue } = await import('./kv.ts');
      finish(await putValue(key, value, flags));
    });
  conditional(pooled(destroyer(kv, 'delete <key>', 'delete a key'))).action(
    async (key: string, flags: KvFlags & Conditional & { yes?: true; dryRun?: true }) => {
      const { deleteValue } = await import('./kv.ts');
      finish(await deleteValue(key, flags));
    },
  );
}

function pooled(command: Command): Command {
  return command
    .option('--pool <name>', 'the pool', 'kv')
    .option('--timeout <duration>', 'how long it may take', '10s');
}

function conditional(command: Command): Command {
  return command.option(
    '--if-version <count>',
    'only if the key has this version; 0: only if it does not exist',
    wholeNumber('--if-version', 0),
  );
}
