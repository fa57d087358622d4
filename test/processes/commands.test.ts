/** The commands as a user types them: what they print on stdout and stderr, and their exit codes. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { parse } from 'yaml';
import { optionNames } from '../../src/node/options/options.ts';
import { awaitAlive, ProcessLab } from '../support/processes/process-lab.ts';

type List = { readonly schemaVersion: number; readonly items: readonly Record<string, unknown>[] };

describe('commands that send requests to a node', () => {
  test('show members, events, health, status and options in every format', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const b = await lab.agent('b', ['--join', `127.0.0.1:${a.port}`]);
    await awaitAlive(a.addr, 'b');
    const env = { REMUSTER_ADDR: a.addr };
    const [json, yaml, jsonl, name, table, events, health, status, config] = await Promise.all([
      lab.run(['members', '-o', 'json'], env),
      lab.run(['members', '-o', 'yaml'], env),
      lab.run(['members', '-o', 'jsonl'], env),
      lab.run(['members', '-o', 'name'], env),
      lab.run(['members', '--addr', b.addr]),
      lab.run(['events'], env),
      lab.run(['health', '-o', 'json'], env),
      lab.run(['status', '-o', 'json'], env),
      lab.run(['config', 'show', '--sources', '-o', 'json'], env),
    ]);
    for (const { code, stderr } of [json, yaml, jsonl, name, table, events, health, status, config])
      assert.deepEqual([code, stderr], [0, '']);
    const { schemaVersion, items } = JSON.parse(json.stdout) as List;
    assert.equal(schemaVersion, 1);
    for (const row of items) {
      for (const key of [
        'name',
        'id',
        'host',
        'port',
        'roles',
        'dc',
        'state',
        'incarnation',
        'health',
        'registration',
        'generation',
        'loadLevel',
      ])
        assert.ok(key in row, key);
    }
    assert.deepEqual((parse(yaml.stdout) as List).items.length, 2);
    assert.deepEqual(
      jsonl.stdout
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line) as { name: string }).name)
        .toSorted(),
      ['a', 'b'],
    );
    assert.deepEqual(name.stdout.trim().split('\n').toSorted(), ['a', 'b']);
    assert.match(table.stdout, /^NAME +ROLES +DC +STATE/);
    const types = events.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { seq: number; type: string; node: string; time: string });
    assert.ok(types.some(({ type, node, seq }) => type === 'member.alive' && node === 'a' && seq > 0));
    const healthy = JSON.parse(health.stdout) as Record<string, unknown>;
    assert.deepEqual([healthy['live'], healthy['ready'], healthy['schemaVersion']], [true, true, 1]);
    assert.equal((JSON.parse(status.stdout) as Record<string, unknown>)['ready'], true);
    const options = (JSON.parse(config.stdout) as List).items;
    assert.deepEqual(
      options.find((row) => row['name'] === 'profile'),
      { name: 'profile', value: 'local', source: 'flag --profile' },
    );
    assert.deepEqual(
      options.find((row) => row['name'] === 'secret'),
      { name: 'secret', value: '(hidden)', source: 'environment REMUSTER_AUTH_SECRET' },
    );
  });

  test('follow events and watch members until Ctrl-C, which is 130', async (context) => {
    const lab = new ProcessLab(context);
    const a = await lab.agent('a');
    const follower = lab.program(['events', '--follow', '--addr', a.addr]);
    const watcher = lab.program(['members', '--watch', '-o', 'name', '--addr', a.addr]);
    await Promise.all([follower.waitForOutput('stdout', /node\.joined/), watcher.waitForOutput('stdout', /^a$/m)]);
    await lab.agent('b', ['--join', `127.0.0.1:${a.port}`]);
    await Promise.all([
      follower.waitForOutput('stdout', /"type":"member\.alive".*"member":"b"/),
      watcher.waitForOutput('stdout', /^b$/m),
    ]);
    for (const started of [follower, watcher]) {
      started.kill('SIGINT');
      assert.deepEqual(await started.waitForExit(), { code: 130, signal: null });
    }
  });

  test('exit with 3 when the node does not reply, and with 2 when the context is unknown', async (context) => {
    const lab = new ProcessLab(context);
    for (const command of ['members', 'events', 'health', 'status']) {
      const { code, stdout, stderr } = await lab.run([command, '-o', 'json', '--addr', 'http://127.0.0.1:1']);
      assert.deepEqual([code, stdout], [3, ''], command);
      const { error } = JSON.parse(stderr) as { error: Record<string, string> };
      assert.equal(error['code'], 'UNREACHABLE');
      assert.ok(error['message'] && error['hint']);
    }
    const { code, stderr } = await lab.run(['members', '--context', 'nowhere']);
    assert.equal(code, 2);
    assert.match(stderr, /unknown context "nowhere"/);
  });
});

describe('commands that need no cluster', () => {
  test('config show prints the options and their sources', async (context) => {
    const lab = new ProcessLab(context);
    writeFileSync(join(lab.folder, 'remuster.config.yaml'), 'dc: east\nport: 1\n');
    const { code, stdout } = await lab.run(['config', 'show', '--sources', '-o', 'json', '--http-port', '2'], {
      REMUSTER_PORT: '3',
    });
    assert.equal(code, 0);
    const { items } = JSON.parse(stdout) as List;
    const shown = Object.fromEntries(
      items.map((row) => [row['name'], `${String(row['value'])} ${String(row['source'])}`]),
    );
    assert.deepEqual(Object.keys(shown), optionNames);
    assert.deepEqual(
      [shown['dc'], shown['port'], shown['httpPort'], shown['cluster']],
      ['east file remuster.config.yaml', '3 environment REMUSTER_PORT', '2 flag --http-port', 'remuster default'],
    );
    writeFileSync(join(lab.folder, 'remuster.config.yaml'), 'prot: 1\n');
    const wrong = await lab.run(['config', 'show']);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /unknown option "prot".*did you mean port\?/);
  });

  test('explain prints an error code, and suggests the nearest one for a typo', async (context) => {
    const lab = new ProcessLab(context);
    const { code, stdout } = await lab.run(['explain', 'CAPACITY', '-o', 'json']);
    assert.equal(code, 0);
    const entry = JSON.parse(stdout) as Record<string, unknown>;
    assert.deepEqual(
      [entry['code'], entry['retryable'], entry['stateChanged'], entry['schemaVersion']],
      ['CAPACITY', true, 'no', 1],
    );
    const typo = await lab.run(['explain', 'CAPACTY', '-o', 'json']);
    assert.equal(typo.code, 2);
    assert.match(typo.stderr, /did you mean CAPACITY/);
  });

  test('completion scripts are accepted by their shell', async (context) => {
    const lab = new ProcessLab(context);
    const scripts = await Promise.all(['bash', 'zsh', 'fish'].map((shell) => lab.run(['completion', shell])));
    for (const { code, stdout } of scripts) {
      assert.equal(code, 0);
      assert.match(stdout, /members/);
    }
    const file = join(lab.folder, 'completion.bash');
    writeFileSync(
      file,
      `${scripts[0]?.stdout ?? ''}\nCOMP_WORDS=(remuster dev ki); COMP_CWORD=2; _remuster; echo "\${COMPREPLY[@]}"\n`,
    );
    const { stdout } = await promisify(execFile)('bash', [file]);
    assert.equal(stdout, 'kill\n');
    assert.equal((await lab.run(['completion', 'tcsh'])).code, 2);
  });

  test('wrong usage exits with 2, suggests a correction, and prints JSON with -o json', async (context) => {
    const lab = new ProcessLab(context);
    const cases: [string[], RegExp][] = [
      [['membrs'], /Did you mean members/],
      [['dev', 'kil', 'w1'], /did you mean kill/],
      [['members', '--wotch'], /Did you mean --watch/],
      [['members', '-o', 'xml'], /Allowed choices/],
      [['members', 'extra'], /too many arguments/],
      [['events', '--since', 'x'], /number of an event/],
      [['dev', '--workers', 'many'], /--workers must be/],
    ];
    const runs = await Promise.all(cases.map(([args]) => lab.run(args)));
    for (const [i, { code, stdout, stderr }] of runs.entries()) {
      const [args, pattern] = cases[i] as [string[], RegExp];
      assert.deepEqual([code, stdout], [2, ''], args.join(' '));
      assert.match(stderr, pattern, args.join(' '));
    }
    const { code, stderr } = await lab.run(['membrs', '-o', 'json']);
    assert.equal(code, 2);
    assert.equal((JSON.parse(stderr) as { error: { code: string } }).error.code, 'BAD_ARGUMENT');
  });

  test('help and version go to stdout, also through the launcher', async (context) => {
    const lab = new ProcessLab(context);
    const help = await lab.run(['--help']);
    assert.deepEqual([help.code, help.stderr], [0, '']);
    assert.match(help.stdout, /members/);
    const launcher = resolve(import.meta.dirname, '../../bin/remuster.js');
    const { stdout } = await promisify(execFile)(process.execPath, [launcher, '--version']);
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/);
  });

  test('a closed stdout is no error', async (context) => {
    const lab = new ProcessLab(context);
    const started = lab.program(['explain', '-o', 'json']);
    started.child.stdout?.destroy();
    assert.deepEqual(await started.waitForExit(), { code: 0, signal: null });
    assert.equal(started.stderr, '');
  });
});
