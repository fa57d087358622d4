/** Declares `remuster call`. What it does is imported when it runs. */
import { type Command, Option } from 'commander';
import type { CallFlags } from './call.ts';
import { type Finish, integerFlag } from '../command/command-flags.ts';

export function addCallCommand(program: Command, finish: Finish): void {
  program
    .command('call <pool> <method> [json]')
    .description('call a method of one or more containers and print the result as JSON')
    .helpGroup('Operate:')
    .option('--hash <key>', 'call the container of this key')
    .option('--id <number>', 'call the container with this number', integerFlag('--id', 0))
    .option('--range <first:count>', 'call this many containers from the first one on: 0:8 is 0 to 7')
    .option('--broadcast', 'call all containers of the pool')
    .option('--node <name>', 'call the first container that this node owns')
    .option('--local', 'call the first container that the node at --addr owns')
    .option('--dynamic', 'let the route function of the module choose')
    .option('--timeout <duration>', 'time limit of the call', '10s')
    .option('--call-id <id>', 'resend with the same id: the call runs once and returns the same result')
    .addOption(new Option('-o, --output <format>', 'print errors as JSON too').choices(['json']))
    .option('--addr <url>', 'HTTP address of a node [REMUSTER_ADDR]')
    .option('--context <name>', 'name of a cluster in the contexts file')
    .option('--token <token>', 'bearer token [REMUSTER_TOKEN]')
    .addHelpText(
      'after',
      `
A JSON array is the list of arguments; any other JSON is the only argument.

Examples:
  remuster call visits add '["home", 1]' --hash home
  remuster call visits total --broadcast`,
    )
    .action(async (pool: string, method: string, json: string | undefined, flags: CallFlags) => {
      const { callCommand } = await import('./call.ts');
      finish(await callCommand(pool, method, json, flags));
    });
}
