/**
 * The options: precedence, all problems at once, durations, secrets that stay hidden, and the table's own promises.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { namePattern } from '../../base/ids.ts';
import { nearestName } from './nearest-name.ts';
import { isLoopbackHost, parseOptionDuration, parseHostPort, formatHostPort, formatDuration } from './option-types.ts';
import { nodeOptions, optionNames, formatOption, optionProblemsError, resolveOptions } from './options.ts';
import { envNameOf, flagNameOf, type OptionRow, optionsTable, profiles, optionRelations } from './options-table.ts';

const strong = 'jH2k-9vQx7Lm_pZ4t';

function readText(path: string): string {
  if (path !== '/run/secret') throw new Error('no such file');
  return `${strong}\n`;
}

describe('the precedence of sources', () => {
  const file = { path: 'remuster.config.yaml', values: { port: 3, dc: 'file', httpPort: 4 } };
  const env = { REMUSTER_PORT: '2', REMUSTER_DC: 'environment' };

  test('is flag, environment, file, default, and each value names its origin', () => {
    const { values, origins, problems } = resolveOptions({ flags: { port: '1' }, env, file });
    assert.deepEqual(problems, []);
    assert.deepEqual([values.port, values.dc, values.httpPort, values.cluster], [1, 'environment', 4, 'remuster']);
    assert.deepEqual(origins.port, { kind: 'flag', detail: 'flag --port' });
    assert.deepEqual(origins.dc, { kind: 'environment', detail: 'environment REMUSTER_DC' });
    assert.deepEqual(origins.httpPort, { kind: 'file', detail: 'file remuster.config.yaml' });
    assert.deepEqual(origins.cluster, { kind: 'default', detail: 'default' });
  });

  test('treats an empty variable as not set', () => {
    assert.equal(resolveOptions({ env: { REMUSTER_PORT: '' }, file }).values.port, 3);
  });

  test('puts the defaults of the machine between the file and the table', () => {
    assert.equal(resolveOptions({ machine: { name: 'here' } }).values.name, 'here');
    assert.equal(resolveOptions({ machine: { name: 'here' }, env: { REMUSTER_NAME: 'there' } }).values.name, 'there');
  });

  test('takes the default times from the profile, whatever its source', () => {
    const { values, origins } = resolveOptions({ env: { REMUSTER_PROFILE: 'classic' } });
    assert.deepEqual(
      [values.probeTimeoutMs, values.indirectTimeoutMs, values.suspicionAlphaRatio * values.probeIntervalMs],
      [5_000, 3_000, 10_000],
    );
    assert.equal(origins.probeTimeoutMs.detail, 'default of profile classic');
  });

  test('refuse, in a program, unknown names and unknown roles', () => {
    const typo = { nmae: 'a' } as never;
    assert.throws(() => nodeOptions(typo), { code: 'BAD_ARGUMENT', message: /no option nmae, did you mean name/ });
    assert.throws(() => nodeOptions({ roles: ['boss'] } as never), { code: 'BAD_ARGUMENT', message: /^roles .*boss/ });
    assert.deepEqual(nodeOptions({ roles: ['worker'] }).roles, ['worker']);
  });

  test('applies timeScale to protocol times and nothing else', () => {
    const { values } = resolveOptions({ flags: { timeScale: '0.5', probeInterval: undefined, stuckAfterMs: '4s' } });
    assert.deepEqual([values.probeIntervalMs, values.stuckAfterMs], [500, 2_000]);
    assert.equal(values.stopTimeoutMs, 25_000);
    assert.deepEqual(nodeOptions({ timeScale: 0.5 }).probeIntervalMs, 500);
  });
});

describe('resolveOptions', () => {
  test('reports all problems at once, each with its source', () => {
    const { problems } = resolveOptions({
      flags: { port: '70000', roles: 'worker,king' },
      env: { REMUSTER_PROBE_INTERVAL: 'soon' },
      file: { path: 'c.json', values: { joim: ['a:1'], chaos: 'perhaps' } },
    });
    assert.deepEqual(problems.map((problem) => problem.option).toSorted(), [
      'chaos',
      'joim',
      'port',
      'probeIntervalMs',
      'roles',
    ]);
    const { code, message } = optionProblemsError(problems);
    assert.equal(code, 'BAD_ARGUMENT');
    assert.match(message, /unknown option "joim" \(file c\.json\); did you mean join\?/);
    assert.match(message, /port must be between 0 and 65535, not 70000 \(flag --port\)/);
    assert.match(message, /probeIntervalMs must be a duration .* not "soon" \(environment REMUSTER_PROBE_INTERVAL\)/);
  });

  test('reports each relation under its first option, and each can be violated', () => {
    const broken: Record<string, Parameters<typeof nodeOptions>[0]> = {
      probeTimeoutFloorMs: { probeTimeoutFloorMs: 501 },
      gossipIntervalMs: { gossipIntervalMs: 1_001 },
      suspicionAlphaRatio: { suspicionAlphaRatio: 1, gossipIntervalMs: 300 },
      syncPauseMs: { syncPauseMs: 30_001 },
      syncTimeoutMs: { syncTimeoutMs: 30_001 },
      reapAfterMs: { reapAfterMs: 30_000 },
      refusalsNeededCount: { refusalsNeededCount: 5 },
      heartbeatMs: { heartbeatMs: 200 },
      electionTimeoutMs: { electionTimeoutMs: 33_000 },
      registry: { registry: 'etcd' },
      servingLeaseMs: { servingLeaseMs: 2_700 },
      callRetryMs: { callRetryMs: 6_000 },
      jobLeaseMs: { jobLeaseMs: 2_700 },
      connectTimeoutMs: { connectTimeoutMs: 60_000 },
      port: { port: 7_500 },
      secret: { host: '10.0.0.1' },
      secretPrevious: { secretPrevious: [strong] },
      token: { httpHost: '0.0.0.0' },
      tlsCertFile: { tlsKeyFile: 'key.pem' },
      tlsVerifyHostname: { host: '10.0.0.1', secret: strong, tlsVerifyHostname: false },
      chaos: { httpHost: '0.0.0.0', token: 'x', chaos: true },
    };
    for (const { options, holds, sentence } of optionRelations) {
      if (sentence.includes('at least 16')) continue;
      assert.equal(holds(nodeOptions(broken[options[0]])), false, sentence);
    }
  });

  test('skips the relations of an option that cannot be parsed', () => {
    const { problems } = resolveOptions({ flags: { gossipIntervalMs: 'x', probeIntervalMs: '10ms' } });
    assert.deepEqual(
      problems.map((problem) => problem.option),
      ['gossipIntervalMs'],
    );
  });

  test('warns about an unknown variable with a suggestion', () => {
    const { warnings, problems } = resolveOptions({
      env: { REMUSTER_PROB_INTERVAL: '1s', PATH: '/bin', REMUSTER_ADDR: 'x' },
    });
    assert.deepEqual(problems, []);
    assert.deepEqual(warnings, [
      'remuster has no variable REMUSTER_PROB_INTERVAL; did you mean REMUSTER_PROBE_INTERVAL?',
    ]);
  });

  test('treats a prototype key in a file as an unknown option', () => {
    const values = JSON.parse('{"__proto__":{"port":1},"constructor":1}') as Record<string, unknown>;
    const resolved = resolveOptions({ file: { path: 'c.json', values } });
    assert.equal(resolved.values.port, 7_400);
    assert.deepEqual(
      resolved.problems.map((problem) => problem.option),
      ['__proto__', 'constructor'],
    );
  });
});

describe('a secret', () => {
  test('comes from the environment, a file named there, or a file named by a flag', () => {
    assert.equal(resolveOptions({ env: { REMUSTER_AUTH_SECRET: strong } }).values.secret, strong);
    assert.equal(resolveOptions({ env: { REMUSTER_AUTH_SECRET_FILE: '/run/secret' }, readText }).values.secret, strong);
    const byFlag = resolveOptions({ flags: { secretFile: '/run/secret' }, readText });
    assert.equal(byFlag.values.secret, strong);
    assert.equal(byFlag.origins.secret.detail, 'flag --secret-file');
  });

  test('is not taken from the command line itself', () => {
    assert.equal(resolveOptions({ flags: { secret: strong } }).values.secret, undefined);
  });

  test('is a problem if its file cannot be read or if it is given twice', () => {
    const unreadable = resolveOptions({ flags: { secretFile: '/nowhere' }, readText });
    assert.match(unreadable.problems[0]?.message ?? '', /cannot read the file "\/nowhere"/);
    const both = resolveOptions({
      env: { REMUSTER_AUTH_SECRET: strong, REMUSTER_AUTH_SECRET_FILE: '/run/secret' },
      readText,
    });
    assert.match(both.problems[0]?.message ?? '', /both as a value and as a file/);
  });

  test('of former times is one line of a list', () => {
    const env = { REMUSTER_AUTH_SECRET: strong, REMUSTER_AUTH_SECRET_PREVIOUS: `${strong}1\n${strong}2` };
    assert.deepEqual(resolveOptions({ env }).values.secretPrevious, [`${strong}1`, `${strong}2`]);
  });

  test('is never printed, not even in an error', () => {
    const weak = resolveOptions({
      env: { REMUSTER_AUTH_SECRET: 'planted', REMUSTER_TOKEN: 'planted', REMUSTER_AUTH_SECRET_PREVIOUS: 'planted' },
    });
    assert.equal(weak.problems[0]?.code, 'WEAK_SECRET');
    const shown = JSON.stringify([
      weak.problems,
      weak.warnings,
      optionNames.map((option) => formatOption(option, weak.values)),
    ]);
    assert.ok(!shown.includes('planted'));
  });

  test('that is too short is rejected', () => {
    const { problems } = resolveOptions({ env: { REMUSTER_AUTH_SECRET: 'fifteen-letters' } });
    assert.deepEqual(
      problems.map((problem) => problem.code),
      ['WEAK_SECRET'],
    );
  });

  test('is required on every address but loopback', () => {
    assert.deepEqual(['127.0.0.1', '127.9.9.9', '::1', 'localhost'].map(isLoopbackHost), [true, true, true, true]);
    assert.deepEqual(
      ['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.com', 'localhost.example.com'].filter(isLoopbackHost),
      [],
    );
  });
});

describe('option values', () => {
  test('accept durations with a unit or in plain milliseconds', () => {
    const cases: [unknown, number | undefined][] = [
      ['500ms', 500],
      ['5s', 5_000],
      ['1.5s', 1_500],
      ['2m', 120_000],
      ['1h', 3_600_000],
      ['250', 250],
      [250, 250],
      ['5 s', 5_000],
      ['5d', undefined],
      ['', undefined],
      [{}, undefined],
      ['-5s', undefined],
    ];
    for (const [raw, ms] of cases) assert.equal(parseOptionDuration(raw), ms, JSON.stringify(raw));
    assert.deepEqual([500, 5_000, 90_000, 120_000, 3_600_000, 0].map(formatDuration), [
      '500ms',
      '5s',
      '90s',
      '2m',
      '1h',
      '0ms',
    ]);
  });

  test('parse a duration that was formatted to the same value', () => {
    fc.assert(fc.property(fc.nat(), (ms) => parseOptionDuration(formatDuration(ms)) === ms));
  });

  test('accept addresses as host:port, IPv6 in brackets', () => {
    assert.deepEqual(parseHostPort('a.example:7400'), { host: 'a.example', port: 7_400 });
    assert.deepEqual(parseHostPort('[::1]:7400'), { host: '::1', port: 7_400 });
    assert.equal(formatHostPort({ host: '::1', port: 7_400 }), '[::1]:7400');
    for (const wrong of ['a', 'a:0', 'a:65536', '::1:7400', 'http://a:1', 'a b:1', ':1'])
      assert.equal(parseHostPort(wrong), undefined, wrong);
    assert.deepEqual(resolveOptions({ flags: { join: 'a:1, b:2' } }).values.join, [
      { host: 'a', port: 1 },
      { host: 'b', port: 2 },
    ]);
    assert.deepEqual(resolveOptions({ file: { path: 'f', values: { join: ['a:1'] } } }).values.join, [
      { host: 'a', port: 1 },
    ]);
  });

  test('suggest the nearest name only if it is near', () => {
    assert.equal(nearestName('membres', ['members', 'events']), 'members');
    assert.equal(nearestName('prot', ['host', 'port']), 'port');
    assert.equal(nearestName('zebra', ['members', 'events']), undefined);
  });
});

describe('the options table', () => {
  test('has valid defaults in every profile, relations included', () => {
    for (const profile of profiles) {
      const values = nodeOptions({ profile });
      for (const option of optionNames) {
        const row = optionsTable[option] as OptionRow<unknown>;
        if (values[option] !== undefined) assert.deepEqual(row.type.parse(values[option]).ok, true, option);
      }
      assert.deepEqual(
        optionRelations.filter((relation) => !relation.holds(values)).map((relation) => relation.sentence),
        [],
      );
    }
  });

  test('has names with units, one sentence per option, unique flags and variables', () => {
    for (const option of optionNames) {
      const row = optionsTable[option] as OptionRow<unknown>;
      assert.equal(row.type.syntax === 'duration', option.endsWith('Ms'), option);
      assert.match(row.doc, /^[A-Z][^.]*(\.[^. ][^.]*)*\.$/, option);
    }
    assert.equal(new Set(optionNames.map(flagNameOf)).size, optionNames.length);
    assert.equal(new Set(optionNames.map(envNameOf)).size, optionNames.length);
    assert.deepEqual(
      [
        flagNameOf('probeIntervalMs'),
        flagNameOf('secret'),
        envNameOf('secret'),
        envNameOf('cleanupIntervalMs'),
        envNameOf('tlsVerifyHostname'),
        envNameOf('token'),
      ],
      [
        '--probe-interval',
        '--secret-file',
        'REMUSTER_AUTH_SECRET',
        'REMUSTER_CLEANUP_INTERVAL',
        'REMUSTER_TLS_VERIFY_HOSTNAME',
        'REMUSTER_TOKEN',
      ],
    );
    assert.match(nodeOptions().name, namePattern);
  });
});
