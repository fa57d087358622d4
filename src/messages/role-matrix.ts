/**
 * Which role may send which message over which carrier, read from the declarations. Decides from three bytes, so a
 * flood of forbidden messages is refused without being decoded.
 */
import type { Role } from '../base/ports.ts';
import { catalogue } from './catalogue.ts';
import { peekTag, supportsVersion } from './codec/codec.ts';
import type { Carrier, MessageDeclaration } from './codec/message.ts';
import { roleBits } from './codec/numbers.ts';

export type SenderRefusal = 'header' | 'version' | 'unknownTag' | 'carrier' | 'role';

type Rule = { readonly carrier: MessageDeclaration['carrier']; readonly senders: number };

/** By tag. An array, because it is read for each message. */
const rules: (Rule | undefined)[] = Array.from({ length: Math.max(...catalogue.map(({ tag }) => tag)) + 1 });
for (const { tag, carrier, from } of catalogue) rules[tag] = { carrier, senders: roleBits(from) };

/** Why a message must be refused, or undefined. One permitted role of the sender is enough. */
export function checkSender(carrier: Carrier, roles: readonly Role[], body: Uint8Array): SenderRefusal | undefined {
  const tag = peekTag(body);
  if (tag === undefined) return 'header';
  if (!supportsVersion(body)) return 'version';
  const rule = tag < rules.length ? rules[tag] : undefined;
  if (rule === undefined) return 'unknownTag';
  if (rule.carrier !== 'both' && rule.carrier !== carrier) return 'carrier';
  return (rule.senders & roleBits(roles)) === 0 ? 'role' : undefined;
}
