/** The commands of the key-value module. Like program.ts it only declares; the rest is imported when it is called. */
import type { Command } from 'commander';
import type { KvFlags } from './kv.ts';
import { addDestructiveCommand, addReadCommand, integerFlag } from '../command/command-flags.ts';

type Conditional = { readonly ifVersion?: number };

export function addKvCommands(program: Command, finish: (exitCode: number) => void): void {
  const kv = program.command('kv').description('keys and values in a pool of the module kv').helpGroup('Operate:');
  pooled(addReadCommand(kv, 'get <key>', 'the value of one key'))
    .option('--watch', 'print again when it changes')
    .action(async (key: string, flags: KvFlags & { watch?: true }) => {
      const { kvGetCommand } = await import('./kv.ts');
      finish(await kvGetCommand(key, flags));
    });
  pooled(addReadCommand(kv, 'list [prefix]', 'all keys that begin with these characters, in order'))
    .option('--from <key>', 'begin with this key')
    .option('--limit <count>', 'at most so many', integerFlag('--limit', 1))
    .option('--watch', 'print again when something changes')
    .action(async (prefix: string | undefined, flags: KvFlags & { from?: string; limit?: number; watch?: true }) => {
      const { kvListCommand } = await import('./kv.ts');
      finish(await kvListCommand(prefix ?? '', flags));
    });
  conditional(
    pooled(addReadCommand(kv, 'put <key> <value>', 'write a value: JSON if it is JSON, else the text itself')),
  )
    .helpGroup('Operate:')
    .option('--ttl <duration>', 'the key is gone after so long')
    .action(async (key: string, value: string, flags: KvFlags & Conditional & { ttl?: string }) => {
      const { kvPutCommand } = await import('./kv.ts');
      finish(await kvPutCommand(key, value, flags));
    });
  conditional(pooled(addDestructiveCommand(kv, 'delete <key>', 'delete a key'))).action(
    async (key: string, flags: KvFlags & Conditional & { yes?: true; dryRun?: true }) => {
      const { kvDeleteCommand } = await import('./kv.ts');
      finish(await kvDeleteCommand(key, flags));
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
    integerFlag('--if-version', 0),
  );
}
