// SPDX-License-Identifier: GPL-3.0-or-later
pragma solidity ^0.8.0;

/// The dollar of `reconciler demo --chain anvil`: the least ERC-20 that a payment needs. Anybody may mint.
/// token_code.py holds it compiled; tests compile it again and compare.
contract DemoDollar {
    event Transfer(address indexed from, address indexed to, uint256 amount);

    string public constant symbol = "DUSD";
    uint8 public immutable decimals;
    mapping(address => uint256) public balanceOf;

    constructor(uint8 decimals_) {
        decimals = decimals_;
    }

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount;
        emit Transfer(msg.sender, to, amount);
        return true;
    }
}
