/**
 * The command tree: commands, flags, one sentence each. Commands are imported when they run, so that help and
 * completion stay fast.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { RemusterError } from '../base/errors.ts';
import { nearestName } from '../node/options/nearest-name.ts';
import { addCallCommand } from './pools/call-program.ts';
import { addClusterCommands } from './cluster/cluster-commands.ts';
import type { DevControlFlags } from './dev/dev-control-client.ts';
import type { DevFlags } from './dev/dev.ts';
import { addJobCommands } from './jobs/job-commands.ts';
import { addKvCommands } from './pools/kv-program.ts';
import { addComposeCommand, addModuleCommands, addNewCommands } from './pools/module-commands.ts';
import { addOptionFlags, givenFlags } from './agent/option-flags.ts';
import { type RejoinPolicy, rejoinPolicies } from '../registration/registration-options.ts';
import { type OutputFormat, outputFormats } from './output/render.ts';
import { addPoolCommands } from './pools/pool-commands.ts';
import { type ReadFlags, addReadCommand, integerFlag } from './command/command-flags.ts';

export type ProgramContext = {
  readonly version: string;
  /** The file that was started: node processes are started from it again. */
  readonly entry: string;
  readonly finish: (exitCode: number) => void;
};

export function buildProgram(context: ProgramContext): Command {
  const program = new Command('remuster')
    .description('A fault-tolerant distributed runtime: real processes that find each other, and survive each other.')
    .version(context.version, '-V, --version')
    .helpCommand(true)
    .enablePositionalOptions()
    .showSuggestionAfterError(true)
    .configureHelp({ showGlobalOptions: false });
  // Subcommands inherit these settings when they are made, so they come first.
  program.exitOverride().configureOutput({ outputError: () => undefined });
  addAgent(program, context);
  addDev(program, context);
  addStart(program, context);
  addJobCommands(program, context.finish);
  addReaders(program, context);
  addClusterCommands(program, context.finish);
  addKvCommands(program, context.finish);
  addPoolCommands(program, context.finish);
  addModuleCommands(program, context.finish);
  addComposeCommand(program, context.finish);
  addCallCommand(program, context.finish);
  addConfig(program, context);
  addTools(program, context);
  addNewCommands(program, context.finish);
  return program;
}

function addAgent(program: Command, { finish }: ProgramContext): void {
  const command = program.command('agent').description('run one node in the foreground').helpGroup('Run:');
  addOptionFlags(command);
  command
    .addOption(new Option('--with-parent', 'end when stdin closes').hideHelp())
    .addOption(new Option('--dev-root <path>', 'data directory of the dev cluster').hideHelp())
    .addOption(new Option('--dev-temporary', 'help to remove it when orphaned').hideHelp())
    .addHelpText('after', '\nA flag beats the environment, which beats the options file, which beats the default.')
    .action(async (flags: { config?: string; withParent?: true; devRoot?: string; devTemporary?: true }) => {
      const { agentCommand } = await import('./agent/agent.ts');
      finish(
        await agentCommand({
          typed: givenFlags(command),
          config: flags.config,
          withParent: flags.withParent === true,
          devRoot: flags.devRoot,
          devTemporary: flags.devTemporary === true,
        }),
      );
    });
}

type DevWords = Record<'gates' | 'managers' | 'workers' | 'dcs' | 'portBase', string> & {
  readonly modules?: string;
  readonly rejoin: RejoinPolicy;
  readonly data?: string;
  readonly retain?: true;
  readonly output?: string;
  readonly exit?: true;
  readonly withParent?: true;
};

function addDevFlags(command: Command): Command {
  return command
    .option('--gates <count>', 'gates in all', '1')
    .option('--managers <count>', 'managers per datacenter', '3')
    .option('--workers <count>', 'workers per datacenter', '3')
    .option('--dcs <count>', 'datacenters', '1')
    .option(
      '--port-base <port>',
      'first port; the next free range is taken when it is in use, 0 lets the system choose',
      '7400',
    )
    .option('--modules <paths>', 'files or packages with modules, loaded by every node')
    .addOption(
      new Option('--rejoin <policy>', 'how a node comes back that was away too long')
        .choices(rejoinPolicies)
        .default('active'),
    )
    .option('--data <path>', 'data directory, kept at the end; by default a temporary one')
    .option('--retain', 'keep the temporary data directory at the end')
    .option('--no-console', 'do not serve the web console')
    .addOption(new Option('--with-parent', 'end when stdin closes').hideHelp());
}

async function devFlags(words: DevWords, { entry }: ProgramContext): Promise<DevFlags> {
  const { parseCount } = await import('./dev/dev.ts');
  return {
    entry,
    gates: parseCount('--gates', words.gates, 50),
    managers: parseCount('--managers', words.managers, 50),
    workers: parseCount('--workers', words.workers, 50),
    dcs: Math.max(1, parseCount('--dcs', words.dcs, 16)),
    portBase: parseCount('--port-base', words.portBase, 65_000),
    modules: words.modules && absolutePaths(words.modules),
    rejoin: words.rejoin,
    data: words.data,
    retain: words.retain === true,
    json: words.output === 'json',
    withParent: words.withParent === true,
  };
}

/** Nodes have another working directory; what is no file here is a package. */
function absolutePaths(paths: string): string {
  return paths
    .split(',')
    .map((path) => (existsSync(path) ? resolve(path) : path))
    .join(',');
}

function addDev(program: Command, context: ProgramContext): void {
  const { finish } = context;
  const command = addDevFlags(program.command('dev').helpGroup('Run:'))
    .description('run a local cluster, every node a real process, until Ctrl-C')
    .argument('[words...]')
    .usage('[options] [command]')
    .addOption(new Option('-o, --output <format>', 'how to say that it is ready').choices(['table', 'json']))
    .action(async (words: string[], flags: DevWords) => {
      if (words.length > 0) throw unknownCommand(`dev ${words[0]}`, words[0] ?? '', command);
      const { devCommand } = await import('./dev/dev.ts');
      finish(await devCommand(await devFlags(flags, context)));
    });
  const order = (
    verb: 'kill' | 'restart' | 'pause' | 'resume' | 'partition' | 'heal',
    argument: string,
    sentence: string,
  ): void => {
    const child = command.command(`${verb}${argument}`).description(sentence);
    child
      .option('--addr <url>', 'HTTP address of any node of the dev cluster, when several run [REMUSTER_ADDR]')
      .option('--data <path>', 'data directory of the dev cluster, when several run')
      .addOption(new Option('-o, --output <format>', 'how to say what was done').choices(['table', 'json']))
      .action(async () => {
        const { devControlCommand } = await import('./dev/dev-control-client.ts');
        finish(await devControlCommand(verb, child.args.join(' '), child.opts<DevControlFlags>()));
      });
  };
  order('kill', ' <name>', 'kill -9 a node of the running dev cluster');
  order('restart', ' <name>', 'start a node again that has ended, with the data it had');
  order('pause', ' <name>', 'stop a node without ending it');
  order('resume', ' <name>', 'let a paused node go on');
  order('partition', ' <groups...>', 'cut the links between groups, written as A,B / C');
  order('heal', '', 'mend all links');
}

function addStart(program: Command, context: ProgramContext): void {
  addDevFlags(program.command('start', { hidden: true }))
    .description('what `npm start` runs: a local cluster, a load test on it, and what to do next')
    .option('--exit', 'end after the report, with the exit code of the run')
    .option('--duration <duration>', 'how long the load test lasts')
    .option('--vus <count>', 'how many users it has', integerFlag('--vus', 1))
    .action(async ({ duration, vus, exit, ...words }: DevWords & { duration?: string; vus?: number }) => {
      const { startCommand } = await import('./dev/start.ts');
      const sample = { ...(duration === undefined ? {} : { duration }), ...(vus === undefined ? {} : { vus }) };
      context.finish(await startCommand({ ...(await devFlags(words, context)), ...sample, exit: exit === true }));
    });
}

function addReaders(program: Command, { finish }: ProgramContext): void {
  addReadCommand(program, 'members', 'who is in the cluster')
    .option('--watch', 'print again when something changes')
    .action(async (flags: ReadFlags & { watch?: true }) => {
      const { membersCommand } = await import('./cluster/members.ts');
      finish(await membersCommand(flags, flags.output, flags.watch === true));
    });
  addReadCommand(program, 'events', 'what happened, one JSON object a line', 'jsonl')
    .option('--follow', 'go on with what happens from now on')
    .option('--since <seq>', 'only events after this number')
    .action(async (flags: ReadFlags & { follow?: true; since?: string }) => {
      const { eventsCommand } = await import('./cluster/events.ts');
      finish(await eventsCommand({ ...flags, follow: flags.follow === true, since: flags.since }, flags.output));
    });
  addReadCommand(
    program,
    'why <name>',
    'why a member is believed to be what it is: its last changes with the evidence',
  ).action(async (name: string, flags: ReadFlags) => {
    const { whyCommand } = await import('./cluster/why.ts');
    finish(await whyCommand(flags, flags.output, name));
  });
  addReadCommand(
    program,
    'join <addresses>',
    'tell a running node of others (host:port,...), which it then joins',
  ).action(async (addresses: string, flags: ReadFlags) => {
    const { joinCommand } = await import('./cluster/join.ts');
    finish(await joinCommand(flags, flags.output, addresses));
  });
  addReadCommand(program, 'rtt <from> <to>', 'round trip between two members, estimated and as measured').action(
    async (from: string, to: string, flags: ReadFlags) => {
      const { rttCommand } = await import('./cluster/round-trip.ts');
      finish(await rttCommand(flags, flags.output, from, to));
    },
  );
  addReadCommand(
    program,
    'reachability',
    'who can hear whom, by asking everybody; exit code 4 when some did not answer',
  ).action(async (flags: ReadFlags) => {
    const { reachabilityCommand } = await import('./cluster/reachability.ts');
    finish(await reachabilityCommand(flags, flags.output));
  });
  addReadCommand(program, 'health', 'is a node well; exit code 1 when it is not ready').action(
    async (flags: ReadFlags) => {
      const { healthCommand } = await import('./cluster/health.ts');
      finish(await healthCommand(flags, flags.output));
    },
  );
}

function addConfig(program: Command, { finish }: ProgramContext): void {
  const config = program.command('config').description('options of a node').helpGroup('Look:');
  const show = addReadCommand(
    config,
    'show',
    'the options a node started here would have, or those of the node at --addr',
  );
  show.option('--sources', 'also say where each value comes from');
  // --token belongs to the reader; the token of a node comes from a file or the environment anyway.
  addOptionFlags(show);
  show.action(async (flags: ReadFlags & { sources?: true; config?: string }) => {
    const { configShowCommand } = await import('./agent/config-show.ts');
    const { addr, context, token } = flags;
    const target = { ...(addr ? { addr } : {}), ...(context ? { context } : {}), ...(token ? { token } : {}) };
    const own = { typed: givenFlags(show), config: flags.config, sources: flags.sources === true };
    finish(await configShowCommand({ ...target, ...own }, flags.output));
  });
}

function addTools(program: Command, { finish }: ProgramContext): void {
  const tool = (words: string, sentence: string): Command =>
    program.command(words).description(sentence).helpGroup('Tools:');
  tool('explain [code]', 'what an error code means')
    .addOption(new Option('-o, --output <format>', 'how to show it').choices(outputFormats).default('table'))
    .action(async (code: string | undefined, flags: { output: OutputFormat }) => {
      const { explainCommand } = await import('./explain.ts');
      finish(await explainCommand(code, flags.output));
    });
  tool('completion <shell>', 'completion script for bash, zsh or fish').action(async (shell: string) => {
    const { completionCommand } = await import('./completion.ts');
    finish(completionCommand(program, shell));
  });
}

function unknownCommand(typed: string, word: string, parent: Command): RemusterError {
  const nearest = nearestName(
    word,
    parent.commands.map((command) => command.name()),
  );
  return new RemusterError(
    'BAD_ARGUMENT',
    `unknown command ${JSON.stringify(typed)}${nearest === undefined ? '' : `; did you mean ${nearest}?`}`,
  );
}
