/** Declares the commands of the key-value module. What a command does is imported when it runs. */
import type { Command } from 'commander';
import type { KvFlags } from './kv.ts';
import {
  type Finish,
  addDestructiveCommand,
  addReadCommand,
  integerFlag,
  watchHelp,
} from '../command/command-flags.ts';

type ConditionFlags = { readonly ifVersion?: number };

export function addKvCommands(program: Command, finish: Finish): void {
  const kv = program
    .command('kv')
    .description('read and write keys in a pool of the built-in module kv')
    .helpGroup('Operate:');
  pooled(addReadCommand(kv, 'get <key>', 'show the value of a key'))
    .option('--watch', watchHelp)
    .action(async (key: string, flags: KvFlags & { watch?: true }) => {
      const { kvGetCommand } = await import('./kv.ts');
      finish(await kvGetCommand(key, flags));
    });
  pooled(addReadCommand(kv, 'list [prefix]', 'list the keys that begin with a prefix, in order'))
    .option('--from <key>', 'start with this key')
    .option('--limit <count>', 'list at most this many', integerFlag('--limit', 1))
    .option('--watch', watchHelp)
    .action(async (prefix: string | undefined, flags: KvFlags & { from?: string; limit?: number; watch?: true }) => {
      const { kvListCommand } = await import('./kv.ts');
      finish(await kvListCommand(prefix ?? '', flags));
    });
  conditional(pooled(addReadCommand(kv, 'put <key> <value>', 'write a value: JSON if it parses as JSON, else text')))
    .helpGroup('Operate:')
    .option('--ttl <duration>', 'delete the key after this time')
    .action(async (key: string, value: string, flags: KvFlags & ConditionFlags & { ttl?: string }) => {
      const { kvPutCommand } = await import('./kv.ts');
      finish(await kvPutCommand(key, value, flags));
    });
  conditional(pooled(addDestructiveCommand(kv, 'delete <key>', 'delete a key'))).action(
    async (key: string, flags: KvFlags & ConditionFlags & { yes?: true; dryRun?: true }) => {
      const { kvDeleteCommand } = await import('./kv.ts');
      finish(await kvDeleteCommand(key, flags));
    },
  );
}

function pooled(command: Command): Command {
  return command
    .option('--pool <name>', 'name of the pool', 'kv')
    .option('--timeout <duration>', 'time limit of the call', '10s');
}

function conditional(command: Command): Command {
  return command.option(
    '--if-version <count>',
    'only if the key has this version; 0: only if it does not exist',
    integerFlag('--if-version', 0),
  );
}
