/** The command `call` with its flags. Like program.ts it only declares; what it does is imported when it is called. */
import { type Command, Option } from 'commander';
import type { CallFlags } from './call.ts';
import { integerFlag } from '../command/command-flags.ts';

export function addCallCommand(program: Command, finish: (exitCode: number) => void): void {
  program
    .command('call <pool> <method> [json]')
    .description('call a method of containers and print its result as JSON')
    .helpGroup('Operate:')
    .option('--hash <key>', 'the container that this key belongs to')
    .option('--id <number>', 'this container', integerFlag('--id', 0))
    .option('--range <first:count>', 'so many containers from the first one on: 0:8 is 0 to 7')
    .option('--broadcast', 'all containers of the pool')
    .option('--node <name>', 'the first container that this node owns')
    .option('--local', 'the first container that the asked node owns')
    .option('--dynamic', 'the module decides')
    .option('--timeout <duration>', 'how long it may take', '10s')
    .option('--call-id <id>', 'the same id gives the same answer and runs once')
    .addOption(new Option('-o, --output <format>', 'errors too are JSON then').choices(['json']))
    .option('--addr <url>', 'HTTP address of a node [REMUSTER_ADDR]')
    .option('--context <name>', 'cluster of the contexts file')
    .option('--token <token>', 'bearer token [REMUSTER_TOKEN]')
    .addHelpText('after', '\nJSON: a list is the list of arguments, anything else is one argument.')
    .action(async (pool: string, method: string, json: string | undefined, flags: CallFlags) => {
      const { callCommand } = await import('./call.ts');
      finish(await callCommand(pool, method, json, flags));
    });
}
