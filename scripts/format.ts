/** `npm run format`: formats and fixes what the linter can fix. */
import { runTool } from './testing/stage.ts';

for (const [command, ...args] of [
  ['oxlint', '--type-aware', '--fix'],
  ['oxfmt', '.'],
] as const) {
  const { code, output } = await runTool(command, args);
  console.log(`${command}: ${output.trim()}`);
  if (code !== 0) process.exitCode = code;
}
