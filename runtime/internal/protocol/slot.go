package protocol

// Slots is the number of slots of a cluster.
const Slots = 16384

// Slot returns the slot of a key or a channel: the CRC16 of its hash tag.
func Slot(name string) uint16 {
	name = HashTag(name)
	var crc uint16
	for i := range len(name) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^name[i]]
	}
	return crc % Slots
}

// crcs are the CRC16 of every byte, by the polynomial x^16 + x^12 + x^5 + 1.
var crcs = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
