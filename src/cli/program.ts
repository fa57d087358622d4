/**
 * The command tree: commands, flags, one line of help each. A command is imported when it runs, so that help and
 * completion stay fast.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { nearestName } from '../node/options/nearest-name.ts';
import { type RejoinPolicy, rejoinPolicies } from '../registration/registration-options.ts';
import { addOptionFlags, givenFlags } from './agent/option-flags.ts';
import { addOperateCommands, addViewCommands } from './cluster/cluster-commands.ts';
import { type Finish, type ReadFlags, addReadCommand, integerFlag } from './command/command-flags.ts';
import type { DevControlFlags } from './dev/dev-control-client.ts';
import type { DevVerb } from './dev/dev-control.ts';
import type { DevFlags } from './dev/dev.ts';
import { addJobCommands } from './jobs/job-commands.ts';
import { type OutputFormat, outputFormats } from './output/render.ts';
import { addCallCommand } from './pools/call-command.ts';
import { addKvCommands } from './pools/kv-commands.ts';
import { addComposeCommand, addModuleCommands } from './pools/module-commands.ts';
import { addPoolCommands } from './pools/pool-commands.ts';
import { addRegistryCommands } from './registry/registry-commands.ts';
import { addNewCommands } from './scaffold/new-commands.ts';

export type ProgramContext = {
  readonly version: string;
  /** The entry file of this process; node processes are started from it too. */
  readonly entry: string;
  readonly finish: Finish;
};

export function buildProgram(context: ProgramContext): Command {
  const { finish } = context;
  const program = new Command('remuster')
    .description('A fault-tolerant distributed runtime: stateful services, load tests and batch jobs on a cluster.')
    .version(context.version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print help')
    .addHelpCommand(
      new Command('help').argument('[command]').description('print help of a command').helpGroup('Tools:'),
    )
    .enablePositionalOptions()
    .showSuggestionAfterError(true)
    .configureHelp({ showGlobalOptions: false });
  // Subcommands inherit these settings when they are created, so the settings come first.
  program.exitOverride().configureOutput({ outputError: () => undefined });
  // The order of the groups in the help is that of their first command.
  addAgent(program, context);
  addDev(program, context);
  addStart(program, context);
  addViewCommands(program, finish);
  addConfig(program, context);
  addJobCommands(program, finish);
  addPoolCommands(program, finish);
  addCallCommand(program, finish);
  addKvCommands(program, finish);
  addModuleCommands(program, finish);
  addComposeCommand(program, finish);
  addOperateCommands(program, finish);
  addRegistryCommands(program, finish);
  addTools(program, context);
  addNewCommands(program, finish);
  program.addHelpText(
    'after',
    `
Try it:
  remuster dev                       start a local cluster; leave it running
  remuster members                   in another terminal: list its nodes
  remuster run examples/primes.ts    run a batch job on it`,
  );
  return program;
}

function addAgent(program: Command, { finish }: ProgramContext): void {
  const command = program.command('agent').description('run one node in the foreground').helpGroup('Run:');
  addOptionFlags(command);
  command
    .addOption(new Option('--with-parent', 'end when stdin closes').hideHelp())
    .addOption(new Option('--dev-root <path>', 'data directory of the dev cluster').hideHelp())
    .addOption(new Option('--dev-temporary', 'remove that directory when orphaned').hideHelp())
    .addHelpText('after', '\nPrecedence: flag, environment variable, options file, default.')
    .action(async (flags: { config?: string; withParent?: true; devRoot?: string; devTemporary?: true }) => {
      const { agentCommand } = await import('./agent/agent.ts');
      finish(
        await agentCommand({
          given: givenFlags(command),
          config: flags.config,
          withParent: flags.withParent === true,
          devRoot: flags.devRoot,
          devTemporary: flags.devTemporary === true,
        }),
      );
    });
}

/** Flags of `dev` before their numbers are parsed. */
type RawDevFlags = Record<'gates' | 'managers' | 'workers' | 'dcs' | 'portBase', string> & {
  readonly modules?: string;
  readonly rejoin: RejoinPolicy;
  readonly data?: string;
  readonly retain?: true;
  /** False with `--no-console`. */
  readonly console: boolean;
  readonly output?: string;
  readonly exit?: true;
  readonly withParent?: true;
};

function addDevFlags(command: Command): Command {
  return command
    .option('--gates <count>', 'number of gates', '1')
    .option('--managers <count>', 'managers in each datacenter', '3')
    .option('--workers <count>', 'workers in each datacenter', '3')
    .option('--dcs <count>', 'number of datacenters', '1')
    .option('--port-base <port>', 'first port; a higher free range if it is in use; 0: the system chooses', '7400')
    .option('--modules <paths>', 'files or packages with modules that every node loads, separated by commas')
    .addOption(
      new Option('--rejoin <policy>', 'state of a node that returns after its registration expired')
        .choices(rejoinPolicies)
        .default('active'),
    )
    .option('--data <path>', 'data directory, kept at the end; without it a temporary one')
    .option('--retain', 'keep the temporary data directory at the end')
    .option('--no-console', 'do not serve the web console')
    .addOption(new Option('--with-parent', 'end when stdin closes').hideHelp());
}

async function devFlags(raw: RawDevFlags, { entry }: ProgramContext): Promise<DevFlags> {
  const { parseCount } = await import('./dev/dev.ts');
  return {
    entry,
    gates: parseCount('--gates', raw.gates, 50),
    managers: parseCount('--managers', raw.managers, 50),
    workers: parseCount('--workers', raw.workers, 50),
    dcs: Math.max(1, parseCount('--dcs', raw.dcs, 16)),
    portBase: parseCount('--port-base', raw.portBase, 65_000),
    modules: raw.modules && absolutePaths(raw.modules),
    rejoin: raw.rejoin,
    console: raw.console,
    data: raw.data,
    retain: raw.retain === true,
    json: raw.output === 'json',
    withParent: raw.withParent === true,
  };
}

/** The nodes have another working directory, so files need absolute paths. A path without a file names a package. */
function absolutePaths(paths: string): string {
  return paths
    .split(',')
    .map((path) => (existsSync(path) ? resolve(path) : path))
    .join(',');
}

function addDev(program: Command, context: ProgramContext): void {
  const { finish } = context;
  const command = addDevFlags(program.command('dev').helpGroup('Run:'))
    .description('run a local cluster, one process per node, until Ctrl-C')
    .argument('[command...]')
    .usage('[options] [command]')
    .addOption(new Option('-o, --output <format>', 'format of the ready message').choices(['table', 'json']))
    .action(async (args: string[], flags: RawDevFlags) => {
      if (args[0] !== undefined) throw unknownDevCommand(args[0], command);
      const { devCommand } = await import('./dev/dev.ts');
      finish(await devCommand(await devFlags(flags, context)));
    });
  const addVerb = (verb: DevVerb, argument: string, description: string): void => {
    const child = command.command(`${verb}${argument}`).description(description);
    child
      .option('--addr <url>', 'HTTP address of a node of the dev cluster, if several run [REMUSTER_ADDR]')
      .option('--data <path>', 'data directory of the dev cluster, if several run')
      .addOption(new Option('-o, --output <format>', 'output format').choices(['table', 'json']))
      .action(async () => {
        const { devControlCommand } = await import('./dev/dev-control-client.ts');
        finish(await devControlCommand(verb, child.args.join(' '), child.opts<DevControlFlags>()));
      });
  };
  addVerb('kill', ' <name>', 'kill -9 a node of the running dev cluster');
  addVerb('restart', ' <name>', 'start a node again that has ended, with its data');
  addVerb('pause', ' <name>', 'stop a node with SIGSTOP; it does not end');
  addVerb('resume', ' <name>', 'continue a paused node');
  addVerb('partition', ' <groups...>', 'cut the links between groups of nodes, written as A,B / C');
  addVerb('heal', '', 'restore all links');
}

function addStart(program: Command, context: ProgramContext): void {
  addDevFlags(program.command('start', { hidden: true }))
    .description('run a local cluster and a sample load test (npm start)')
    .option('--exit', 'end after the report, with the exit code of the run')
    .option('--duration <duration>', 'duration of the load test')
    .option('--vus <count>', 'virtual users of the load test', integerFlag('--vus', 1))
    .action(async ({ duration, vus, exit, ...raw }: RawDevFlags & { duration?: string; vus?: number }) => {
      const { startCommand } = await import('./dev/start.ts');
      const sample = { ...(duration === undefined ? {} : { duration }), ...(vus === undefined ? {} : { vus }) };
      context.finish(await startCommand({ ...(await devFlags(raw, context)), ...sample, exit: exit === true }));
    });
}

function addConfig(program: Command, { finish }: ProgramContext): void {
  const config = program.command('config').description('options of a node').helpGroup('Inspect:');
  const show = addReadCommand(
    config,
    'show',
    'show the options that a node started here would have, or those of the node at --addr',
  );
  show.option('--sources', 'show where each value comes from');
  // --token is the token of the request: the token of a node comes from a file or the environment.
  addOptionFlags(show);
  show.action(async (flags: ReadFlags & { sources?: true; config?: string }) => {
    const { configShowCommand } = await import('./agent/config-show.ts');
    const { addr, context, token } = flags;
    const target = { ...(addr ? { addr } : {}), ...(context ? { context } : {}), ...(token ? { token } : {}) };
    const local = { given: givenFlags(show), config: flags.config, sources: flags.sources === true };
    finish(await configShowCommand({ ...target, ...local }, flags.output));
  });
}

function addTools(program: Command, { finish }: ProgramContext): void {
  const addTool = (usage: string, description: string): Command =>
    program.command(usage).description(description).helpGroup('Tools:');
  addTool('explain [code]', 'explain an error code, or list all codes')
    .addOption(new Option('-o, --output <format>', 'output format').choices(outputFormats).default('table'))
    .action(async (code: string | undefined, flags: { output: OutputFormat }) => {
      const { explainCommand } = await import('./explain.ts');
      finish(await explainCommand(code, flags.output));
    });
  addTool('completion <shell>', 'print a completion script for bash, zsh or fish').action(async (shell: string) => {
    const { completionCommand } = await import('./completion.ts');
    finish(completionCommand(program, shell));
  });
}

function unknownDevCommand(name: string, dev: Command): RemusterError {
  const known = dev.commands.map((command) => command.name());
  const nearest = nearestName(name, known);
  const hint = nearest === undefined ? `the commands are ${known.join(', ')}` : `did you mean ${nearest}?`;
  return new RemusterError('BAD_ARGUMENT', `unknown command ${JSON.stringify(`dev ${name}`)}; ${hint}`);
}
