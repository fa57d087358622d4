/** Declares the commands about registry keys and backups. What a command does is imported when it runs. */
import type { Command } from 'commander';
import {
  type Finish,
  type ReadFlags,
  addDestructiveCommand,
  addReadCommand,
  integerFlag,
} from '../command/command-flags.ts';
import type { SnapshotRestoreFlags } from './registry-backup.ts';
import type { WriteFlags } from './registry.ts';

type DeleteFlags = WriteFlags & { readonly reason?: string; readonly yes?: true; readonly dryRun?: true };

export function addRegistryCommands(program: Command, finish: Finish): void {
  const registry = program
    .command('registry')
    .description('the replicated key space of the managers: keys, watches, backups')
    .helpGroup('Operate:');
  addKeys(registry, finish);
  const snapshot = registry.command('snapshot').description('back up and restore the registry').helpGroup('Operate:');
  addReadCommand(snapshot, 'save <file>', 'save the whole registry to a file').action(
    async (file: string, flags: ReadFlags) => {
      const { registrySnapshotSaveCommand } = await import('./registry-backup.ts');
      finish(await registrySnapshotSaveCommand(file, flags, flags.output));
    },
  );
  addDestructiveCommand(snapshot, 'restore <file>', 'replace the whole registry by a saved file').action(
    async (file: string, flags: SnapshotRestoreFlags) => {
      const { registrySnapshotRestoreCommand } = await import('./registry-backup.ts');
      finish(await registrySnapshotRestoreCommand(file, flags));
    },
  );
}

function addKeys(registry: Command, finish: Finish): void {
  const stale = (command: Command): Command =>
    command.option('--stale', 'read from the nearest manager: possibly stale, but works without a leader');
  const conditional = (command: Command): Command =>
    command.option(
      '--if-version <count>',
      'only if the key has this version; 0: only if it does not exist',
      integerFlag('--if-version', 0),
    );
  stale(addReadCommand(registry, 'get <key>', 'show one key')).action(
    async (key: string, flags: ReadFlags & { stale?: true }) => {
      const { registryGetCommand } = await import('./registry.ts');
      finish(await registryGetCommand(key, flags, flags.output));
    },
  );
  stale(addReadCommand(registry, 'list [prefix]', 'list the keys that begin with a prefix'))
    .option('--limit <count>', 'list at most this many', integerFlag('--limit', 1))
    .action(async (prefix: string | undefined, flags: ReadFlags & { stale?: true; limit?: number }) => {
      const { registryListCommand } = await import('./registry.ts');
      finish(await registryListCommand(prefix ?? '', flags, flags.output));
    });
  conditional(addReadCommand(registry, 'put <key> <value>', 'write a key'))
    .helpGroup('Operate:')
    .action(async (key: string, value: string, flags: WriteFlags) => {
      const { registryPutCommand } = await import('./registry.ts');
      finish(await registryPutCommand(key, value, flags));
    });
  conditional(addDestructiveCommand(registry, 'delete <key>', 'delete a key')).action(
    async (key: string, flags: DeleteFlags) => {
      const { registryDeleteCommand } = await import('./registry.ts');
      finish(await registryDeleteCommand(key, flags));
    },
  );
  addReadCommand(registry, 'watch [prefix]', 'print changes as they happen, one JSON object a line', 'jsonl')
    .option('--from <revision>', 'start with this revision instead of the next one', integerFlag('--from', 1))
    .action(async (prefix: string | undefined, flags: ReadFlags & { from?: number }) => {
      const { registryWatchCommand } = await import('./registry-watch.ts');
      finish(await registryWatchCommand(prefix ?? '', flags, flags.output));
    });
}
