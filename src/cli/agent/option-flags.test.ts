/** The options table as flags and in the help, and the commands of the contract. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { optionNames, resolveOptions } from '../../node/options/options.ts';
import { flagNameOf, optionsTable } from '../../node/options/options-table.ts';
import { addOptionFlags, givenFlags } from './option-flags.ts';
import { buildProgram } from '../program.ts';

function agentCommand(...args: string[]): Command {
  const command = new Command('agent').exitOverride();
  addOptionFlags(command);
  return command.parse(args, { from: 'user' });
}

test('givenFlags is empty without flags, also for switches that are on by default', () => {
  assert.deepEqual(givenFlags(agentCommand()), {});
});

test('givenFlags returns a flag under the name of its option', () => {
  const given = givenFlags(
    agentCommand('--probe-interval', '2s', '--no-tls-verify-hostname', '--chaos', '--secret-file', '/s'),
  );
  assert.deepEqual(given, { probeIntervalMs: '2s', tlsVerifyHostname: false, chaos: true, secretFile: '/s' });
  const { values, problems } = resolveOptions({ flags: given, readText: () => 'jH2k-9vQx7Lm_pZ4t' });
  assert.deepEqual(problems, []);
  assert.deepEqual([values.probeIntervalMs, values.tlsVerifyHostname, values.chaos], [2_000, false, true]);
});

test('the help of agent has every flag and every sentence of the options table', () => {
  const program = buildProgram({ version: '0', entry: '', finish: () => undefined });
  const help =
    program.commands
      .find((command) => command.name() === 'agent')
      ?.helpInformation()
      .replaceAll(/\s+/g, ' ') ?? '';
  for (const option of optionNames) {
    assert.ok(help.includes(flagNameOf(option).replace(/^--(?=tls-verify|console)/, '--no-')), option);
    assert.ok(help.includes(optionsTable[option].doc), option);
  }
  assert.ok(!help.includes('--with-parent'));
});

test('the program has the commands of the contract, and hides start', () => {
  const program = buildProgram({ version: '0', entry: '', finish: () => undefined });
  const names = program.commands.map((command) => command.name());
  for (const name of [
    'agent',
    'dev',
    'members',
    'events',
    'health',
    'status',
    'config',
    'explain',
    'completion',
    'start',
  ]) {
    assert.ok(names.includes(name), name);
  }
  assert.doesNotMatch(program.helpInformation(), /^ +start\b/m);
});
