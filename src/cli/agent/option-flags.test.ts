/** The options table as flags, and the command tree as help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { optionNames, resolveOptions } from '../../node/options/options.ts';
import { flagNameOf, optionsTable } from '../../node/options/options-table.ts';
import { addOptionFlags, givenFlags } from './option-flags.ts';
import { buildProgram } from '../program.ts';

function agentCommand(...words: string[]): Command {
  const command = new Command('agent').exitOverride();
  addOptionFlags(command);
  return command.parse(words, { from: 'user' });
}

test('nothing typed means no flag at all, also for switches that are on by default', () => {
  assert.deepEqual(givenFlags(agentCommand()), {});
});

test('what is typed arrives under the name of the option', () => {
  const typed = givenFlags(
    agentCommand('--probe-interval', '2s', '--no-tls-verify-hostname', '--chaos', '--secret-file', '/s'),
  );
  assert.deepEqual(typed, { probeIntervalMs: '2s', tlsVerifyHostname: false, chaos: true, secretFile: '/s' });
  const { values, problems } = resolveOptions({ flags: typed, readText: () => 'jH2k-9vQx7Lm_pZ4t' });
  assert.deepEqual(problems, []);
  assert.deepEqual([values.probeIntervalMs, values.tlsVerifyHostname, values.chaos], [2_000, false, true]);
});

test('help of agent says every flag and every sentence of the table', () => {
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

test('commands of the contract exist, and start is hidden', () => {
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
  assert.ok(!program.helpInformation().includes('start'));
});
